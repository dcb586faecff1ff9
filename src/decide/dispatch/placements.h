// Placements: gives invocations their sandboxes, and puts those back into their queue whose sandbox
// will not serve them. Owned by Dispatcher, on the thread that handles events.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/base/state_archive.h"
#include "decide/dispatch/action_log.h"
#include "decide/dispatch/admission.h"
#include "decide/dispatch/device_pools.h"
#include "decide/dispatch/host_overflow.h"
#include "decide/dispatch/queues.h"
#include "decide/dispatch/tenant_room.h"

namespace lambent::dispatch {

class Placements {
 public:
  // Called when an invocation is given its place, before anything of that is done.
  using Watcher = std::function<void(InvocationId, FunctionId, DeviceId)>;

  Placements(scheduling::Flows& flows, scheduling::Tenants& tenants, Queues& queues,
             HostOverflow& overflow, Admission& admission, DevicePools& pools, TenantRoom& room,
             ActionLog& log)
      : flows_(flows),
        tenants_(tenants),
        queues_(queues),
        overflow_(overflow),
        admission_(admission),
        pools_(pools),
        room_(room),
        log_(log) {}

  // The oldest that waits of the flow gets this place.
  void dispatch(DevicePool& pool, const scheduling::Decision& decision);
  void dispatch_on_host(const scheduling::HostChoice& choice);
  // What waits of functions that take several invocations in one sandbox joins those that are at
  // work and have room: before any decision, for it takes no token.
  void join_those_at_work(DevicePool& pool);
  // It leaves a sandbox where others go on, which keep its token. False: there are none, and
  // nothing was done.
  bool leave_to_others(InvocationSlot slot);
  void watch(Watcher watcher) { watcher_ = std::move(watcher); }

  // A new sandbox of the function there, for its next call.
  void start_ahead(DevicePool& pool, FunctionId function, const scheduling::Place& place);

  // What waited for others to leave, or for a token, goes on if it may.
  void start_planned(DevicePool& pool);
  void run_ready(DevicePool& pool);
  // The sandbox has asked for work.
  void sandbox_ready(const SandboxReady& event);
  // The memory of a sandbox that runs is on the device.
  void memory_arrived(DevicePool& pool, scheduling::SandboxSlot sandbox);

  // Another sandbox for the same invocation in the same place, after the first did not start, or
  // ended before it took up its invocation. Where it cannot have that place any more, the
  // invocation waits again.
  void start_again(DevicePool& pool, scheduling::SandboxSlot sandbox);
  void restart(DevicePool& pool, scheduling::SandboxSlot sandbox);

  // The sandbox of an invocation that has not begun to run will not serve it: it waits again, where
  // it was in its queue.
  void return_to_queue(DevicePool& pool, scheduling::SandboxSlot sandbox);
  // The same of one that is given, and which its program never saw; others are in its sandbox.
  void return_from_others(InvocationSlot slot);
  // The same of all planned sandboxes of which `drops` is true; they are gone.
  void drop_planned(DevicePool& pool, const std::function<bool(const scheduling::Sandbox&)>& drops);
  // Of those planned on a GPU that have no room there beside what was taken of it since, the last
  // ones: it may stay taken for long, and another place be free.
  void drop_planned_beyond(uint32_t device);
  // Since it was dispatched it has waited for a sandbox to leave the place that is planned for it,
  // or for memory to leave.
  void tell_wait_in_planned(InvocationSlot slot);

  // Whether its sandbox is ready, and may not run yet.
  bool waits_for_token(const PendingInvocation& invocation) const;
  // Whether it was dispatched and waits for its memory, or for that of others to leave it room.
  bool waits_for_moves(const PendingInvocation& invocation) const;

  // Of sandboxes, counted up; and one that another program has counted, beyond all before it.
  SandboxId next_sandbox() const { return SandboxId{sandbox_ids_ + 1}; }
  void count_up_to(SandboxId id) { sandbox_ids_ = id.value; }

  void archive(StateArchive& archive) { archive.field(sandbox_ids_); }

 private:
  // It leaves the queue of its function for a place.
  void take_turn(FunctionId function, InvocationSlot slot);
  void place(DevicePool& pool, InvocationSlot invocation, const scheduling::Place& place);
  void take_over(DevicePool& pool, InvocationSlot invocation, scheduling::SandboxSlot sandbox);
  void start(DevicePool& pool, scheduling::SandboxSlot sandbox);
  void rest_ahead(DevicePool& pool, scheduling::SandboxSlot sandbox);
  void run(DevicePool& pool, scheduling::SandboxSlot sandbox, InvocationSlot invocation);
  uint64_t& start_counter(StartClass start);
  scheduling::SandboxSlot at_work_with_room(const DevicePool& pool, FunctionId function) const;
  bool has_room(const DevicePool& pool, scheduling::SandboxSlot sandbox) const;
  bool is_wanted_by_others(const DevicePool& pool, FunctionId function,
                           const scheduling::Device& device) const;
  void join(DevicePool& pool, FunctionId function, scheduling::SandboxSlot sandbox);
  void forget_place(PendingInvocation& invocation);
  bool keeps_place(DevicePool& pool, scheduling::SandboxSlot sandbox) const;

  scheduling::Flows& flows_;
  scheduling::Tenants& tenants_;
  Queues& queues_;
  HostOverflow& overflow_;
  Admission& admission_;
  DevicePools& pools_;
  TenantRoom& room_;
  ActionLog& log_;
  uint64_t sandbox_ids_ = 0;
  std::vector<FunctionId> sharers_;  // in use while they join
  Watcher watcher_;
};

}  // namespace lambent::dispatch
