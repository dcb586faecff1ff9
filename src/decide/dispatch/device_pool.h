// DevicePool: devices, their sandboxes and the policy that orders the flows which share them. One
// pool has the GPUs, one the host's processors. Owned by Dispatcher, on the thread that handles
// events.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "decide/dispatch/action_log.h"
#include "decide/dispatch/memory_moves.h"
#include "decide/dispatch/options.h"
#include "decide/dispatch/pool_scheduler.h"
#include "decide/dispatch/queues.h"
#include "decide/dispatch/sandbox_accounts.h"
#include "decide/dispatch/sandbox_waits.h"
#include "decide/dispatch/shared_sandboxes.h"
#include "decide/scheduling/deadlines.h"
#include "decide/scheduling/fleet.h"

namespace lambent::dispatch {

// It follows each sandbox from its plan to its end, and knows how long it may start, rest or stop.
class DevicePool {
 public:
  DevicePool(Processor processor, scheduling::FleetOptions fleet,
             std::unique_ptr<scheduling::Policy> policy, const DispatchOptions& options,
             const scheduling::Flows& flows, scheduling::Tenants& tenants, ActionLog& log);
  DevicePool(const DevicePool&) = delete;
  DevicePool& operator=(const DevicePool&) = delete;

  Processor processor() const { return processor_; }
  bool is_host() const { return processor_ == Processor::kHost; }
  scheduling::Fleet& fleet() { return scheduler_.fleet(); }
  const scheduling::Fleet& fleet() const { return scheduler_.fleet(); }
  PoolScheduler& scheduler() { return scheduler_; }
  const PoolScheduler& scheduler() const { return scheduler_; }
  MemoryMoves& moves() { return moves_; }
  SandboxWaits& waits() { return waits_; }
  SharedSandboxes& shared() { return shared_; }
  const SharedSandboxes& shared() const { return shared_; }

  // A new sandbox of the function at this place, for that invocation; sandboxes that are in its way
  // are evicted, and it may start when they are gone.
  scheduling::SandboxSlot plan(SandboxId id, FunctionId function, const scheduling::Place& place,
                               InvocationSlot invocation);
  // The same for no invocation yet; and the one of the function for which that was done and that
  // is not ready, or kNoSandbox.
  scheduling::SandboxSlot plan_ahead(SandboxId id, FunctionId function,
                                     const scheduling::Place& place);
  scheduling::SandboxSlot start_ahead_of(FunctionId function) const;
  // The process of a planned one, or another process in the place of one that failed or ended.
  void start(scheduling::SandboxSlot slot);
  // One that the program before this one left there, idle, with its memory where that is.
  scheduling::SandboxSlot keep(SandboxId id, FunctionId function, const scheduling::Place& place,
                               const scheduling::MemoryPlace& memory);
  // It has asked for work, and how long that took has been learnt.
  void started(scheduling::SandboxSlot slot);
  // Its other devices as actions name them: StartSandbox::beside.
  uint64_t beside_of(scheduling::SandboxSlot slot) const;
  // Returns whether its memory is on the device.
  bool run(scheduling::SandboxSlot slot, InvocationSlot invocation);
  // Its run is over.
  void rest(scheduling::SandboxSlot slot);
  // What it holds stays held until it is removed.
  void stop(scheduling::SandboxSlot slot, StopReason reason);
  void evict(scheduling::SandboxSlot slot);
  // It may have no sandbox at its next call: Foresight::plan_look.
  void plan_look(FunctionId function);
  // All idle ones of the function, and those of another revision.
  void stop_idle(FunctionId function, StopReason reason);
  void retire_others(FunctionId function, uint64_t revision);
  void remove(scheduling::SandboxSlot slot);
  // An idle one that has rested for long enough rests on.
  void rest_on(scheduling::SandboxSlot slot);
  // It was told to stop, and does not: it counts as one that stays.
  void keep_counting(scheduling::SandboxSlot slot);
  // Every sandbox, in the accounts of tenants, from now on: a quota of memory was set.
  void count_for_tenants();

  // Functions with min_instances of which a sandbox has become ready, is told to stop or is gone
  // since this was asked last; and whether one was evicted that had served no call.
  struct Changed {
    FunctionId function;
    bool evicted_unused = false;
  };
  bool any_changed() const { return !changed_.empty(); }
  std::vector<Changed> take_changed() { return std::exchange(changed_, {}); }

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
  // The part that is added where tenants matter.
  void archive_tenants(StateArchive& archive);

 private:
  void count(scheduling::SandboxSlot slot, SandboxAccounts::Use use);
  void note_changed(FunctionId function, bool evicted_unused = false);
  Duration keep_alive_of(scheduling::SandboxSlot slot) const;

  const Processor processor_;
  const DispatchOptions& options_;
  const scheduling::Flows& flows_;
  const scheduling::Tenants& tenants_;
  ActionLog& log_;
  PoolScheduler scheduler_;
  MemoryMoves moves_;
  SandboxWaits waits_;
  SandboxAccounts accounts_;
  SharedSandboxes shared_;
  scheduling::Deadlines deadlines_;
  std::vector<Changed> changed_;  // empty between two events
};

}  // namespace lambent::dispatch
