#include "decide/dispatch/placements.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/domain/limits.h"

namespace lambent::dispatch {

using scheduling::Flow;
using scheduling::RunningMean;
using scheduling::Sandbox;
using scheduling::SandboxSlot;
using scheduling::SandboxState;
using scheduling::WaitReason;

namespace {

// What was learnt counts as so many starts beside one that took more than twice as long.
constexpr uint64_t kStartsBesideSlow = 4;

// Where others work or start as well, a start on the host may take many times as long as its
// function needs: it counts as twice what was expected. If those that follow are as slow, the mean
// has reached them after some starts, for what was learnt before then counts little.
void learn_host_start(RunningMean& starts, Duration measured) {
  const Duration most = 2 * starts.mean();
  if (most > Duration(0) && measured > most) {
    starts.weigh_as(kStartsBesideSlow);
    measured = most;
  }
  starts.learn(measured);
}

// It is of the program before this one and was ready at once: it tells the times of its start then.
bool was_there(const SandboxReady& event, Duration since_start) {
  return event.sandbox_time + event.init_time > 2 * since_start;
}

}  // namespace

// ---- To a place

void Placements::dispatch(DevicePool& pool, const scheduling::Decision& decision) {
  const InvocationSlot slot = queues_.front(decision.function);
  CHECK(slot != kNoInvocation, "a policy dispatches only flows that have work");
  const DeviceId device = pool.fleet().devices()[decision.place.device].options.id;
  if (watcher_) watcher_(queues_[slot].id, decision.function, device);
  Flow& flow = flows_[decision.function.value];
  take_turn(decision.function, slot);
  queues_[slot].dispatched = log_.now();
  queues_[slot].device = device;
  ++flow.in_flight;
  tenants_.run_started(flow.tenant_slot);
  flow.last_activity = log_.now();
  if (!pool.is_host()) {
    const bool warm = decision.place.warm != scheduling::kNoSandbox;
    overflow_.dispatched_to_gpu(slot, warm, log_.now());
  }
  place(pool, slot, decision.place);
  pool.scheduler().dispatched(decision.function);
}

void Placements::take_turn(FunctionId function, InvocationSlot slot) {
  flows_[function.value].took_turn(log_.now());
  queues_.leave(slot, log_.now());
  admission_.control().served(function);
  admission_.control().left(function);
}

void Placements::dispatch_on_host(const scheduling::HostChoice& choice) {
  const InvocationSlot slot = queues_.front(choice.function);
  Flow& flow = flows_[choice.function.value];
  take_turn(choice.function, slot);
  ++flow.on_host;
  tenants_.run_started(flow.tenant_slot);
  flow.last_activity = log_.now();
  PoolScheduler& gpus = pools_.gpu.scheduler();
  // Its last one left the GPUs' queue: as after a run there, more is expected for a while.
  if (flow.max_concurrency > 0 && !flow.has_work()) {
    flow.active_until = log_.now() + gpus.policy().grace(gpus.view(), choice.function);
  }
  gpus.flow_changed(choice.function);
  PendingInvocation& invocation = queues_[slot];
  invocation.dispatched = log_.now();
  invocation.device = scheduling::kHostDevice;
  invocation.host_reason = choice.reason;
  invocation.expected_with_gpu = choice.with_gpu;
  invocation.expected_with_host = choice.with_host;
  if (choice.reason == scheduling::HostReason::kTrial) ++log_.counters().host_trials;
  place(pools_.host, slot, choice.place);
}

void Placements::place(DevicePool& pool, InvocationSlot slot, const scheduling::Place& place) {
  if (place.warm != scheduling::kNoSandbox) {
    run(pool, place.warm, slot);
    return;
  }
  PendingInvocation& invocation = queues_[slot];
  const Flow& flow = flows_[invocation.function.value];
  if (const SandboxSlot ahead = pool.start_ahead_of(invocation.function);
      ahead != scheduling::kNoSandbox) {
    take_over(pool, slot, ahead);
    return;
  }
  room_.make_room(flow.tenant_slot,
                  {.gpu = pool.fleet().memory_of(flow, place.device) * flow.gpu_count,
                   .host = flow.host_memory});
  const SandboxSlot sandbox =
      pool.plan(SandboxId{++sandbox_ids_}, invocation.function, place, slot);
  invocation.sandbox = sandbox;
  invocation.on_host = pool.is_host();
  invocation.state = InvocationState::kStarting;
  invocation.start = StartClass::kCold;
  if (pool.fleet().may_start(sandbox)) {
    start(pool, sandbox);
  } else {
    pool.waits().wait_to_start(sandbox);
  }
}

// ---- Into a sandbox at work

void Placements::join_those_at_work(DevicePool& pool) {
  if (pool.shared().empty()) return;
  sharers_.clear();
  queues_.waiting_sharers().for_each([&](FunctionId function) {
    if (!pool.shared().of(function).empty()) sharers_.push_back(function);
  });
  for (const FunctionId function : sharers_) {
    while (flows_[function.value].pending > 0) {
      const SandboxSlot sandbox = at_work_with_room(pool, function);
      if (sandbox == scheduling::kNoSandbox) break;
      join(pool, function, sandbox);
    }
  }
}

// The one with the most in it that has room, so that those with few come to rest, and give back
// what they hold; of equals the one that is at work longest.
SandboxSlot Placements::at_work_with_room(const DevicePool& pool, FunctionId function) const {
  const Flow& flow = flows_[function.value];
  if (!flow.registered || &pool != &pools_.of(flow)) return scheduling::kNoSandbox;
  const bool uses_gpu = processor_of(flow) == Processor::kGpu;
  if (uses_gpu && tenants_.is_over_hour(flow.tenant_slot)) return scheduling::kNoSandbox;
  SandboxSlot best = scheduling::kNoSandbox;
  size_t most = 0;
  for (const SandboxSlot slot : pool.shared().of(function)) {
    const size_t size = pool.shared().find(slot)->size();
    if (size <= most || !has_room(pool, slot)) continue;
    best = slot;
    most = size;
  }
  return best;
}

bool Placements::has_room(const DevicePool& pool, SandboxSlot slot) const {
  const Sandbox& sandbox = pool.fleet().sandbox(slot);
  const Flow& flow = flows_[sandbox.function.value];
  const SharedSandboxes::Turn& turn = *pool.shared().find(slot);
  if (turn.size() >= flow.sandbox_concurrency || turn.leaves || turn.is_suspect) return false;
  if (sandbox.revision != flow.revision || queues_[sandbox.invocation].awaits_memory) return false;
  if (sandbox.memory != pool.fleet().memory_of(flow, sandbox.device)) return false;
  if (sandbox.devices() != flow.gpu_count) return false;
  const scheduling::Device& device = pool.fleet().devices()[sandbox.device];
  if (!pool.fleet().device_table().are_healthy(sandbox)) return false;
  if (sandbox.device_losses != pool.fleet().device_table().losses_of(sandbox)) return false;
  const bool is_due = log_.now() - turn.began >= limits::kLongestSharedTurn ||
                      pool.scheduler().is_throttled(sandbox.function);
  return !is_due || !is_wanted_by_others(pool, sandbox.function, device);
}

// Whether another function waits for what its sandbox holds of the device.
bool Placements::is_wanted_by_others(const DevicePool& pool, FunctionId function,
                                     const scheduling::Device& device) const {
  if (queues_.pending(pool.processor()) <= flows_[function.value].pending) return false;
  const PoolScheduler& scheduler = pool.scheduler();
  return queues_.any_waiting(pool.processor(), [&](FunctionId other) {
    const Flow& flow = flows_[other.value];
    if (other == function || flow.max_concurrency == 0) return false;
    if (tenants_.hold_of(flow) != WaitReason::kNone) return false;
    switch (scheduler.policy().why_waiting(scheduler.view(), other)) {
      case WaitReason::kAtWork:
      case WaitReason::kConcurrencyLimit:
      case WaitReason::kNoDevice:
        return false;
      case WaitReason::kNoMemory:
      case WaitReason::kNoSandbox:
        return true;
      default:
        return !device.has_token();
    }
  });
}

void Placements::join(DevicePool& pool, FunctionId function, SandboxSlot sandbox) {
  const InvocationSlot slot = queues_.front(function);
  const InvocationSlot first = pool.fleet().sandbox(sandbox).invocation;
  if (watcher_) watcher_(queues_[slot].id, function, queues_[first].device);
  take_turn(function, slot);
  flows_[function.value].last_activity = log_.now();
  PendingInvocation& invocation = queues_[slot];
  invocation.dispatched = log_.now();
  invocation.started = log_.now();
  invocation.device = queues_[first].device;
  invocation.state = InvocationState::kRunning;
  invocation.start = StartClass::kWarm;
  invocation.sandbox = sandbox;
  invocation.on_host = pool.is_host();
  ++start_counter(invocation.start);
  queues_.start_timeout(slot, log_.now());
  SharedSandboxes::Turn& turn = *pool.shared().find(sandbox);
  // What the first one had by itself is charged to it as to any other.
  if (!turn.is_shared) turn.charged_until = queues_[first].started + queues_[first].memory_time;
  const Duration since_last = pool.shared().join(sandbox, slot, log_.now());
  if (!pool.is_host()) overflow_.expect_end(first, true, log_.now());
  pool.scheduler().joined(function, since_last);
  log_.add(StartInvocation{.invocation = invocation.id,
                           .sandbox = pool.fleet().sandbox(sandbox).id,
                           .device = invocation.device,
                           .start = invocation.start,
                           .beside = pool.beside_of(sandbox)});
}

bool Placements::leave_to_others(InvocationSlot slot) {
  const PendingInvocation& invocation = queues_[slot];
  if (invocation.state != InvocationState::kRunning) return false;
  DevicePool& pool = pools_.of(invocation);
  const SandboxSlot sandbox = invocation.sandbox;
  if (!pool.shared().has_others(sandbox)) return false;
  if (pool.fleet().sandbox(sandbox).invocation == slot) {
    const InvocationSlot next = pool.shared().find(sandbox)->others.front();
    overflow_.hand_on(slot, next);
    pool.fleet().assign(sandbox, next);
    pool.shared().leave(sandbox, next);
  } else {
    pool.shared().leave(sandbox, slot);
  }
  return true;
}

// The start that is under way is for this one now.
void Placements::take_over(DevicePool& pool, InvocationSlot slot, SandboxSlot sandbox) {
  PendingInvocation& invocation = queues_[slot];
  pool.fleet().assign(sandbox, slot);
  invocation.sandbox = sandbox;
  invocation.on_host = pool.is_host();
  invocation.state = InvocationState::kStarting;
  invocation.start = StartClass::kCold;
  invocation.device = pool.fleet().devices()[pool.fleet().sandbox(sandbox).device].options.id;
  if (pool.fleet().sandbox(sandbox).state == SandboxState::kStarting) queues_.clear_deadline(slot);
}

void Placements::start_ahead(DevicePool& pool, FunctionId function,
                             const scheduling::Place& place) {
  const SandboxSlot sandbox = pool.plan_ahead(SandboxId{++sandbox_ids_}, function, place);
  if (pool.fleet().may_start(sandbox)) {
    start(pool, sandbox);
  } else {
    pool.waits().wait_to_start(sandbox);
  }
}

void Placements::start(DevicePool& pool, SandboxSlot sandbox) {
  if (pool.fleet().sandbox(sandbox).has_invocation) {
    queues_.clear_deadline(pool.fleet().sandbox(sandbox).invocation);
  }
  pool.start(sandbox);
}

void Placements::start_planned(DevicePool& pool) {
  pool.waits().start_planned([&](SandboxSlot sandbox) { start(pool, sandbox); });
}

void Placements::sandbox_ready(const SandboxReady& event) {
  const auto found = pools_.find(event.sandbox);
  if (!found || found->pool.fleet().sandbox(found->slot).state != SandboxState::kStarting ||
      found->pool.waits().waits_to_run(found->slot)) {
    ++log_.counters().ignored_events;
    return;
  }
  DevicePool& pool = found->pool;
  const Sandbox& sandbox = pool.fleet().sandbox(found->slot);
  const Duration start_time = log_.now() - sandbox.since;
  Flow& flow = flows_[sandbox.function.value];
  const bool uses_gpu = processor_of(flow) == Processor::kGpu;
  if (uses_gpu || pool.is_host()) {
    RunningMean& start = uses_gpu && pool.is_host() ? flow.host_cold_start : flow.cold_start;
    if (!pool.is_host() || !pool.fleet().options().bounds_host_starts) {
      start.learn(start_time);
    } else if (!was_there(event, start_time)) {
      learn_host_start(start, start_time);
    }
  }
  pool.started(found->slot);
  if (!sandbox.has_invocation) {
    rest_ahead(pool, found->slot);
    return;
  }
  PendingInvocation& invocation = queues_[sandbox.invocation];
  // The sandbox measured its own init; the rest since the dispatch went into making it, a failed
  // first try and waiting for the memory of others included. One that was started ahead may have
  // been at its init by then.
  const Duration since_dispatch = log_.now() - invocation.dispatched;
  invocation.init_time = std::min({event.init_time, start_time, since_dispatch});
  invocation.sandbox_time = since_dispatch - invocation.init_time;
  if (pool.fleet().may_run(found->slot)) {
    run(pool, found->slot, sandbox.invocation);
    return;
  }
  invocation.wait.begin_in_place(WaitReason::kNoToken, log_.now());
  pool.waits().wait_to_run(found->slot);
}

// It was started ahead, and no call has come yet.
void Placements::rest_ahead(DevicePool& pool, SandboxSlot slot) {
  const Sandbox& sandbox = pool.fleet().sandbox(slot);
  const Flow& flow = flows_[sandbox.function.value];
  const bool is_present = flow.registered && flow.revision == sandbox.revision;
  if (admission_.draining()) {
    pool.stop(slot, StopReason::kDrained);
  } else if (!is_present || sandbox.devices() != flow.gpu_count ||
             pool.fleet().memory_of(flow, sandbox.device) != sandbox.memory) {
    pool.stop(slot, StopReason::kRetired);
  } else {
    pool.rest(slot);
  }
}

void Placements::run_ready(DevicePool& pool) {
  pool.waits().run_ready(
      [&](SandboxSlot sandbox) { run(pool, sandbox, pool.fleet().sandbox(sandbox).invocation); },
      [&](SandboxSlot sandbox) {
        return_to_queue(pool, sandbox);
        pool.stop(sandbox, StopReason::kEvicted);
      });
}

uint64_t& Placements::start_counter(StartClass start) {
  Counters& counters = log_.counters();
  switch (start) {
    case StartClass::kCold:
      return counters.cold_starts;
    case StartClass::kGpuCold:
      return counters.gpu_cold_starts;
    case StartClass::kWarm:
      break;
  }
  return counters.warm_starts;
}

void Placements::run(DevicePool& pool, SandboxSlot sandbox, InvocationSlot slot) {
  PendingInvocation& invocation = queues_[slot];
  const bool memory_is_in = pool.run(sandbox, slot);
  if (invocation.state != InvocationState::kStarting) {
    invocation.start = memory_is_in ? StartClass::kWarm : StartClass::kGpuCold;
  }
  ++start_counter(invocation.start);
  if (invocation.is_cpu_variant()) ++log_.counters().host_runs;
  if (flows_[invocation.function.value].sandbox_concurrency > 1 && !invocation.is_cpu_variant()) {
    pool.shared().begin(sandbox, invocation.function, log_.now());
  }
  invocation.state = InvocationState::kRunning;
  invocation.wait.end(log_.now());
  invocation.started = log_.now();
  invocation.sandbox = sandbox;
  invocation.on_host = pool.is_host();
  invocation.awaits_memory = !memory_is_in;
  invocation.memory_time = {};
  // The timeout of a run begins when its memory is there.
  if (memory_is_in) {
    queues_.start_timeout(slot, log_.now());
  } else {
    queues_.clear_deadline(slot);
  }
  log_.add(StartInvocation{.invocation = invocation.id,
                           .sandbox = pool.fleet().sandbox(sandbox).id,
                           .device = invocation.device,
                           .start = invocation.start,
                           .beside = pool.beside_of(sandbox)});
  if (!memory_is_in) pool.moves().await(sandbox);
}

void Placements::memory_arrived(DevicePool& pool, SandboxSlot sandbox) {
  const InvocationSlot slot = pool.fleet().sandbox(sandbox).invocation;
  PendingInvocation& invocation = queues_[slot];
  invocation.awaits_memory = false;
  invocation.memory_time = log_.now() - invocation.started;
  pool.fleet().begin_work(sandbox, log_.now());
  queues_.start_timeout(slot, log_.now());
}

// ---- Once more in the same place

void Placements::start_again(DevicePool& pool, SandboxSlot sandbox) {
  pool.waits().forget_ready(sandbox);
  // If it waited for a token, it does so no more: it starts.
  queues_[pool.fleet().sandbox(sandbox).invocation].wait.end(log_.now());
  if (!keeps_place(pool, sandbox)) {
    return_to_queue(pool, sandbox);
    pool.remove(sandbox);
    return;
  }
  if (!pool.is_host()) {
    overflow_.expect_end(pool.fleet().sandbox(sandbox).invocation, false, log_.now());
  }
  pool.fleet().replace_id(sandbox, SandboxId{++sandbox_ids_}, log_.now());
  start(pool, sandbox);
}

void Placements::restart(DevicePool& pool, SandboxSlot sandbox) {
  const InvocationSlot slot = pool.fleet().sandbox(sandbox).invocation;
  PendingInvocation& invocation = queues_[slot];
  pool.shared().end(sandbox);
  // Its run was none.
  --start_counter(invocation.start);
  if (invocation.is_cpu_variant()) --log_.counters().host_runs;
  if (!keeps_place(pool, sandbox)) {
    return_to_queue(pool, sandbox);
    pool.remove(sandbox);
    return;
  }
  pool.moves().forget(sandbox);
  invocation.start = StartClass::kCold;
  invocation.state = InvocationState::kStarting;
  invocation.dispatched = log_.now();
  if (!pool.is_host()) overflow_.expect_end(slot, false, log_.now());
  const uint64_t revision = flows_[invocation.function.value].revision;
  pool.fleet().restart(sandbox, SandboxId{++sandbox_ids_}, revision, log_.now());
  start(pool, sandbox);
}

// Whether another process of the same function may take over what this one holds.
bool Placements::keeps_place(DevicePool& pool, SandboxSlot slot) const {
  const scheduling::Fleet& fleet = pool.fleet();
  const Sandbox& sandbox = fleet.sandbox(slot);
  // A new process needs all of its memory at once.
  if (sandbox.memory_state != scheduling::MemoryState::kIn || sandbox.offloaded > Bytes(0)) {
    return false;
  }
  // More may be taken of a device than when it was admitted.
  bool is_over = false;
  sandbox.for_each_device([&](uint32_t index) {
    const scheduling::Device& device = fleet.devices()[index];
    const Bytes held = fleet.memory().moves_idle() ? device.resident : device.occupied;
    is_over |= held > device.capacity();
  });
  if (is_over) return false;
  const Flow& flow = flows_[sandbox.function.value];
  return flow.revision == sandbox.revision && sandbox.devices() == flow.gpu_count &&
         fleet.memory_of(flow, sandbox.device) == sandbox.memory &&
         fleet.device_table().are_healthy(sandbox);
}

// ---- Back to the queue

void Placements::return_to_queue(DevicePool& pool, SandboxSlot sandbox) {
  const InvocationSlot slot = pool.fleet().sandbox(sandbox).invocation;
  const bool has_started = pool.fleet().sandbox(sandbox).state != SandboxState::kPlanned;
  PendingInvocation& invocation = queues_[slot];
  if (!has_started && invocation.wait.tells_longest()) tell_wait_in_planned(slot);
  pool.fleet().unassign(sandbox);
  const FunctionId function = invocation.function;
  forget_place(invocation);
  overflow_.leave(slot);
  // A whole wait again if it has started: the time that went into a start was no waiting.
  queues_.put_back(slot, has_started, log_.now());
  pools_.of(flows_[function.value]).scheduler().flow_changed(function);
  admission_.reject_unless_it_may_wait(slot);
}

void Placements::tell_wait_in_planned(InvocationSlot slot) {
  PendingInvocation& invocation = queues_[slot];
  invocation.wait.begin_in_place(
      waits_for_moves(invocation) ? WaitReason::kMemoryMoving : WaitReason::kNoSandbox,
      invocation.dispatched);
}

void Placements::return_from_others(InvocationSlot slot) {
  PendingInvocation& invocation = queues_[slot];
  const FunctionId function = invocation.function;
  // Its run was none.
  --start_counter(invocation.start);
  leave_to_others(slot);
  forget_place(invocation);
  queues_.put_back(slot, true, log_.now());
  // Its function may have left the pool that it ran in, for one with or without GPU.
  pools_.of(flows_[function.value]).scheduler().flow_changed(function);
  admission_.reject_unless_it_may_wait(slot);
}

void Placements::forget_place(PendingInvocation& invocation) {
  ++log_.counters().returned;
  invocation.state = InvocationState::kQueued;
  invocation.start = StartClass::kWarm;
  invocation.sandbox = scheduling::kNoSandbox;
  invocation.device = {};
  invocation.sandbox_time = {};
  invocation.init_time = {};
  invocation.awaits_memory = false;
  invocation.memory_time = {};
}

void Placements::drop_planned(DevicePool& pool, const std::function<bool(const Sandbox&)>& drops) {
  pool.waits().drop_planned(drops, [&](SandboxSlot sandbox) {
    if (pool.fleet().sandbox(sandbox).has_invocation) return_to_queue(pool, sandbox);
    pool.remove(sandbox);
  });
}

void Placements::drop_planned_beyond(uint32_t index) {
  const scheduling::Fleet& fleet = pools_.gpu.fleet();
  const scheduling::Device& device = fleet.devices()[index];
  const auto at_work = [&] {
    return fleet.memory().moves_idle() ? device.committed : device.committed - device.idle_memory;
  };
  while (at_work() > device.capacity()) {
    const auto last = pools_.gpu.waits().last_planned_on(index);
    if (!last) return;
    const SandboxId id = fleet.sandbox(*last).id;
    drop_planned(pools_.gpu, [&](const Sandbox& sandbox) { return sandbox.id == id; });
  }
}

// ---- Questions

bool Placements::waits_for_token(const PendingInvocation& invocation) const {
  return invocation.state == InvocationState::kStarting &&
         pools_.of(invocation).waits().waits_to_run(invocation.sandbox);
}

bool Placements::waits_for_moves(const PendingInvocation& invocation) const {
  if (invocation.state == InvocationState::kRunning) return invocation.awaits_memory;
  return !invocation.on_host && pools_.gpu.fleet().memory().awaits_room(invocation.sandbox);
}

}  // namespace lambent::dispatch
