// DevicePool: devices, their sandboxes and the policy that orders the flows which share them. One
// pool has the GPUs, one the host's processors. Owned by Dispatcher, on the thread that handles
// events.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "decide/dispatch/action_log.h"
#include "decide/dispatch/memory_moves.h"
#include "decide/dispatch/options.h"
#include "decide/dispatch/pool_scheduler.h"
#include "decide/dispatch/queues.h"
#include "decide/scheduling/deadlines.h"
#include "decide/scheduling/fleet.h"

namespace lambent::dispatch {

// It follows each sandbox from its plan to its end: how long it may start, rest or stop, and what a
// planned or a ready one waits for.
class DevicePool {
 public:
  DevicePool(Processor processor, scheduling::FleetOptions fleet,
             std::unique_ptr<scheduling::Policy> policy, const DispatchOptions& options,
             const scheduling::Flows& flows, ActionLog& log);
  DevicePool(const DevicePool&) = delete;
  DevicePool& operator=(const DevicePool&) = delete;

  Processor processor() const { return processor_; }
  bool is_host() const { return processor_ == Processor::kHost; }
  scheduling::Fleet& fleet() { return scheduler_.fleet(); }
  const scheduling::Fleet& fleet() const { return scheduler_.fleet(); }
  PoolScheduler& scheduler() { return scheduler_; }
  const PoolScheduler& scheduler() const { return scheduler_; }
  MemoryMoves& moves() { return moves_; }

  // A new sandbox of the function at this place, for that invocation; sandboxes that are in its way
  // are evicted. If it may not start yet it waits in the list of planned ones, until
  // start_planned() starts it.
  scheduling::SandboxSlot plan(SandboxId id, FunctionId function, const scheduling::Place& place,
                               InvocationSlot invocation);
  void wait_to_start(scheduling::SandboxSlot slot) { planned_.push_back(slot); }
  // Calls `start(slot)` for each planned one that may start; it is in the list no more.
  template <typename Start>
  void start_planned(Start start) {
    std::erase_if(planned_, [&](scheduling::SandboxSlot slot) {
      if (!fleet().may_start(slot)) return false;
      start(slot);
      return true;
    });
  }
  // Calls `drop(slot)` for each planned one of which `drops(sandbox)` is true; it is in the list no
  // more.
  template <typename Drop>
  void drop_planned(const std::function<bool(const scheduling::Sandbox&)>& drops, Drop drop) {
    for (size_t i = 0; i < planned_.size();) {
      const scheduling::SandboxSlot slot = planned_[i];
      if (!drops(fleet().sandbox(slot))) {
        ++i;
        continue;
      }
      planned_.erase(planned_.begin() + static_cast<ptrdiff_t>(i));
      drop(slot);
    }
  }
  std::optional<scheduling::SandboxSlot> last_planned_on(uint32_t device) const;

  // The process of a planned one, or another process in the place of one that failed or ended.
  void start(scheduling::SandboxSlot slot);
  // It has asked for work, and how long that took has been learnt.
  void started(scheduling::SandboxSlot slot);
  // A ready one waits for a token, until run_ready() runs it.
  void wait_to_run(scheduling::SandboxSlot slot) { ready_.push_back(slot); }
  bool waits_to_run(scheduling::SandboxSlot slot) const;
  void stop_waiting_to_run(scheduling::SandboxSlot slot) { std::erase(ready_, slot); }
  // Calls `run(slot)` for each that waits for a token and gets one, and `give_up(slot)` where no
  // token will come because only sandboxes that may never go hold any.
  template <typename Run, typename GiveUp>
  void run_ready(Run run, GiveUp give_up) {
    std::erase_if(ready_, [&](scheduling::SandboxSlot slot) {
      if (!fleet().may_run(slot)) return false;
      run(slot);
      return true;
    });
    for (size_t i = 0; i < ready_.size();) {
      const scheduling::SandboxSlot slot = ready_[i];
      if (fleet().devices()[fleet().sandbox(slot).device].gives_tokens()) {
        ++i;
        continue;
      }
      ready_.erase(ready_.begin() + static_cast<ptrdiff_t>(i));
      give_up(slot);
    }
  }
  // Returns whether its memory is on the device.
  bool run(scheduling::SandboxSlot slot, InvocationSlot invocation);
  // Its run is over.
  void rest(scheduling::SandboxSlot slot);
  // What it holds stays held until it is removed.
  void stop(scheduling::SandboxSlot slot, StopReason reason);
  void evict(scheduling::SandboxSlot slot);
  // All idle ones of the function, and those of another revision.
  void stop_idle(FunctionId function, StopReason reason);
  void retire_others(FunctionId function, uint64_t revision);
  void remove(scheduling::SandboxSlot slot);

  // A sandbox that has taken too long to start or to stop, or has rested too long.
  bool any_expired(Instant now) { return deadlines_.any_until(now); }
  scheduling::SandboxSlot pop_expired() { return deadlines_.pop(); }
  Instant earliest_deadline(Instant limit) {
    return moves_.earliest_deadline(deadlines_.earliest(limit));
  }
  Instant deadline_of(scheduling::SandboxSlot slot) const { return deadlines_.of(slot); }
  // Into the caches, what an end of a run changes.
  void fetch_deadline(scheduling::SandboxSlot slot) const { deadlines_.fetch(slot); }

  // With the count of `queues` for this pool, which has its place in the middle.
  void archive(StateArchive& archive, Queues& queues);

 private:
  const Processor processor_;
  const DispatchOptions& options_;
  const scheduling::Flows& flows_;
  ActionLog& log_;
  PoolScheduler scheduler_;
  MemoryMoves moves_;
  // Sandboxes that wait for the memory of others, and ready ones that wait for a token; few.
  std::vector<scheduling::SandboxSlot> planned_;
  std::vector<scheduling::SandboxSlot> ready_;
  scheduling::Deadlines deadlines_;
};

}  // namespace lambent::dispatch
