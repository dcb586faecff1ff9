// The part of Dispatcher for places that are no more: a device is lost, a function has changed, a
// sandbox that was to make room does not go.
#include <algorithm>

#include "decide/dispatch/device_pool.h"
#include "decide/dispatch/dispatcher.h"

namespace lambent::dispatch {

using scheduling::Sandbox;
using scheduling::SandboxSlot;
using scheduling::SandboxState;

// The sandbox that an invocation was given will not serve it, and it has not begun to run: it waits
// again, where it stood in its queue. A function that is gone or a worker that stops lets nothing
// wait.
void Dispatcher::return_to_queue(DevicePool& device_pool, SandboxSlot sandbox) {
  const InvocationSlot slot = device_pool.fleet.sandbox(sandbox).invocation;
  const bool waited_for_place = device_pool.fleet.sandbox(sandbox).state == SandboxState::kPlanned;
  device_pool.fleet.unassign(sandbox);
  PendingInvocation& invocation = queues_[slot];
  const FunctionId function = invocation.function;
  ++counters_.returned;
  invocation.state = InvocationState::kQueued;
  invocation.start = StartClass::kWarm;
  invocation.sandbox = scheduling::kNoSandbox;
  invocation.device = {};
  invocation.sandbox_time = {};
  invocation.init_time = {};
  invocation.awaits_memory = false;
  invocation.memory_time = {};
  leave_processor(slot);
  // A whole wait again: the time that went into a start was no waiting.
  queues_.put_back(slot, !waited_for_place, log_.now());
  const scheduling::Flow& flow = flows_[function.value];
  DevicePool& queue_device_pool = device_pool_of(function);
  queue_device_pool.policy->flow_changed(view_of(queue_device_pool), function, log_.now());
  if (!flow.registered) {
    reject_queued(slot, {ErrorCode::kNotFound, "the function was removed while this waited"});
  } else if (!may_wait(flow)) {
    reject_queued(slot, too_large(flow.device_memory));
  } else if (draining_ && !invocation.asynchronous) {
    reject_queued(slot, {ErrorCode::kUnavailable, "the worker is stopping"});
  }
}

void Dispatcher::drop_planned(DevicePool& device_pool,
                              const std::function<bool(const Sandbox&)>& drops) {
  for (size_t i = 0; i < device_pool.planned.size();) {
    const SandboxSlot slot = device_pool.planned[i];
    if (!drops(device_pool.fleet.sandbox(slot))) {
      ++i;
      continue;
    }
    device_pool.planned.erase(device_pool.planned.begin() + static_cast<ptrdiff_t>(i));
    return_to_queue(device_pool, slot);
    remove_sandbox(device_pool, slot);
  }
}

// Of those that are planned on a device, and have no room there beside what was taken of it since,
// the last ones go back: it may be theirs for as long as it likes, and another place be free.
void Dispatcher::drop_planned_beyond(uint32_t device) {
  DevicePool& device_pool = *gpu_;
  const scheduling::Device& there = device_pool.fleet.devices()[device];
  const auto at_work = [&] {
    return device_pool.fleet.moves_idle() ? there.committed : there.committed - there.idle_memory;
  };
  while (at_work() > there.capacity()) {
    const auto last = std::find_if(
        device_pool.planned.rbegin(), device_pool.planned.rend(),
        [&](SandboxSlot slot) { return device_pool.fleet.sandbox(slot).device == device; });
    if (last == device_pool.planned.rend()) return;
    const SandboxId id = device_pool.fleet.sandbox(*last).id;
    drop_planned(device_pool, [&](const Sandbox& sandbox) { return sandbox.id == id; });
  }
}

// Whether another process of the same function may take over what this one holds.
bool Dispatcher::place_stands(const DevicePool& device_pool, const Sandbox& sandbox) const {
  const scheduling::Flow& flow = flows_[sandbox.function.value];
  // A new process needs all of its memory at once.
  if (sandbox.memory_state != scheduling::MemoryState::kIn || sandbox.offloaded > Bytes(0))
    return false;
  const scheduling::Device& device = device_pool.fleet.devices()[sandbox.device];
  const Bytes held = device_pool.fleet.moves_idle() ? device.resident : device.occupied;
  // More may be taken of the device than when it was admitted.
  if (held > device.capacity()) return false;
  return flow.revision == sandbox.revision &&
         device_pool.fleet.memory_of(flow, sandbox.device) == sandbox.memory && device.healthy;
}

// It was told to stop and still exists. What it holds stays held, perhaps for ever, so nothing may
// go on waiting for that alone.
void Dispatcher::stop_hangs(DevicePool& device_pool, SandboxSlot slot) {
  drop_planned(device_pool, [](const Sandbox&) { return true; });
  device_pool.fleet.keep_counting(slot);
  // Nor may anybody wait for memory that only it could have made room for.
  const uint32_t device_of_it = device_pool.fleet.sandbox(slot).device;
  const scheduling::Device& crowded = device_pool.fleet.devices()[device_of_it];
  const std::vector<SandboxSlot> fetching = device_pool.fetching;
  for (const SandboxSlot each : fetching) {
    if (crowded.committed <= crowded.capacity()) break;
    if (device_pool.fleet.sandbox(each).device == device_of_it) end_fetch(device_pool, each, false);
  }
  while (crowded.committed > crowded.capacity()) {
    const auto last = std::find_if(
        device_pool.wanting.rbegin(), device_pool.wanting.rend(),
        [&](SandboxSlot each) { return device_pool.fleet.sandbox(each).device == device_of_it; });
    if (last == device_pool.wanting.rend()) break;
    fail_move(device_pool, *last);
  }
}

// What sandboxes had on the device is gone, and no call of theirs will succeed again. Idle and
// starting ones are stopped; one that runs may still answer, and goes then.
void Dispatcher::lose_device(uint32_t device) {
  DevicePool& device_pool = *gpu_;
  device_pool.fleet.lose(device);
  const std::vector<SandboxSlot> all = device_pool.fleet.all();
  for (const SandboxSlot slot : all) {
    const Sandbox& sandbox = device_pool.fleet.sandbox(slot);
    if (sandbox.device != device) continue;
    if (sandbox.state == SandboxState::kStarting) {
      PendingInvocation& invocation = queues_[sandbox.invocation];
      if (invocation.failed_starts < options_.start_retries) {
        ++invocation.failed_starts;
        return_to_queue(device_pool, slot);
      } else {
        complete(sandbox.invocation, Outcome::kRejected,
                 Error{ErrorCode::kUnavailable,
                       "the GPU was lost or drained while a sandbox started on it"},
                 std::string(kPlatformFailure));
        device_pool.fleet.unassign(slot);
      }
      std::erase(device_pool.ready, slot);
      stop_sandbox(device_pool, slot, StopReason::kDeviceLost);
    } else if (sandbox.state == SandboxState::kIdle) {
      stop_sandbox(device_pool, slot, StopReason::kDeviceLost);
    }
  }
}

}  // namespace lambent::dispatch
