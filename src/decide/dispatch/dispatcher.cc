#include "decide/dispatch/dispatcher.h"

#include <algorithm>

#include "core/base/check.h"
#include "decide/dispatch/device_pool.h"
#include "decide/scheduling/fcfs.h"

namespace lambent::dispatch {

using scheduling::Flow;
using scheduling::Sandbox;
using scheduling::SandboxSlot;

namespace {

scheduling::FleetOptions host_fleet_options(const DispatchOptions& options) {
  scheduling::FleetOptions host;
  host.devices.push_back({.id = scheduling::kHostDevice,
                          .tokens = options.host_concurrency,
                          .contexts = options.host_sandboxes});
  host.most_sandboxes = options.host_sandboxes;
  host.eviction = options.fleet.eviction;
  // Its processors are many and its starts short: calls of one function run beside each other.
  host.second_grace_period = 0;
  return host;
}

}  // namespace

Dispatcher::Dispatcher(DispatchOptions options, std::unique_ptr<scheduling::Policy> policy,
                       std::unique_ptr<scheduling::Policy> host_policy)
    : options_(std::move(options)), queues_(options_, flows_) {
  if (host_policy == nullptr) {
    host_policy = std::make_unique<scheduling::FcfsPolicy>(scheduling::FcfsOptions{});
  }
  policy->adapt(options_.fleet);
  gpu_ = std::make_unique<DevicePool>(Processor::kGpu, options_.fleet, std::move(policy));
  host_ = std::make_unique<DevicePool>(Processor::kHost, host_fleet_options(options_),
                                       std::move(host_policy));
  away_since_.resize(gpu_->fleet.devices().size());
}

Dispatcher::~Dispatcher() = default;

void Dispatcher::handle(const Event& event, Instant now, std::vector<Action>& out) {
  log_.begin(event, now, out);
  gpu_->fleet.tell_time(now);
  host_->fleet.tell_time(now);
  std::visit([this](const auto& e) { on(e); }, event);
  if (ranks_stale_ && !queues_.waiting_variants().empty()) rank_functions();
  for (DevicePool* device_pool : {gpu_.get(), host_.get()}) {
    if (!device_pool->wanting.empty()) move_in_wanting(*device_pool);
    if (!device_pool->fetching.empty()) grant_fetches(*device_pool);
    if (!device_pool->planned.empty()) start_planned(*device_pool);
    if (!device_pool->ready.empty()) run_ready(*device_pool);
    if (queues_.pending(device_pool->processor) > 0) decide(*device_pool);
  }
  send_to_host();
  if (gpu_->fleet.moves_idle()) {
    for (;;) {
      const size_t idle = gpu_->fleet.idle_sandboxes();
      make_room(*gpu_);
      prefetch(*gpu_);
      if (gpu_->fleet.idle_sandboxes() == idle || queues_.pending(Processor::kGpu) == 0) break;
      // Who waited for a sandbox that had to make way may have a place elsewhere now.
      decide(*gpu_);
    }
    gpu_->fleet.settled();
  } else if (make_room_beside_taken(*gpu_) && queues_.pending(Processor::kGpu) > 0) {
    decide(*gpu_);
  }
  if (queues_.has_new_heads()) note_wait_reasons();
  arm_timer();
  log_.end();
}

// ---- Invocations

std::optional<Error> Dispatcher::refusal_of(const InvocationSubmitted& event) const {
  if (!knows(event.function)) {
    return Error{ErrorCode::kNotFound, "the function does not exist"};
  }
  const Flow& flow = flows_[event.function.value];
  if (draining_ && !event.asynchronous) {
    return Error{ErrorCode::kUnavailable, "the worker is stopping; send this to another one"};
  }
  if (!may_wait(flow)) {
    return too_large(flow.device_memory);
  }
  return std::nullopt;
}

void Dispatcher::on(const InvocationSubmitted& event) {
  if (queues_.find(event.invocation)) {
    ++counters_.ignored_events;
    return;
  }
  ++counters_.submitted;
  if (const auto refusal = refusal_of(event)) {
    reject_now(event.invocation, *refusal);
    return;
  }
  Flow& flow = flows_[event.function.value];
  if (auto refusal = queues_.overload_of(event)) {
    note_shedding(event.function);
    reject_now(event.invocation, {ErrorCode::kResourceExhausted, std::move(refusal->message)},
               refusal->retry_after);
    return;
  }
  if (flow.last_arrival != kNever) flow.interarrival.learn(log_.now() - flow.last_arrival);
  flow.last_arrival = log_.now();
  flow.last_activity = log_.now();

  queues_.add(event, log_.now());
  DevicePool& device_pool = device_pool_of(event.function);
  device_pool.policy->enqueued(view_of(device_pool), event.function, log_.now());
}

void Dispatcher::on(const InvocationCancelled& event) {
  const auto slot = queues_.find(event.invocation);
  if (!slot || queues_[*slot].state != InvocationState::kQueued) {
    ++counters_.ignored_events;
    return;
  }
  reject_queued(*slot, {ErrorCode::kCancelled, "the client went away before it ran"});
}

void Dispatcher::on(const InvocationFinished& event) {
  const auto slot = queues_.find(event.invocation);
  if (!slot || queues_[*slot].state != InvocationState::kRunning) {
    ++counters_.ignored_events;
    return;
  }
  const PendingInvocation& invocation = queues_[*slot];
  const SandboxSlot sandbox = invocation.sandbox;
  const FunctionId function = invocation.function;
  // A run whose memory never came says nothing about what it takes on the device.
  const bool failed_on_host = invocation.is_cpu_variant() && !event.succeeded;
  if (!invocation.awaits_memory && !failed_on_host) {
    learn_run(invocation, std::max(Duration(0), event.execution - invocation.memory_time));
  }
  if (event.succeeded) {
    note_host_success(invocation);
  } else if (flows_[function.value].max_concurrency > 0) {
    // Where no GPU could have done better it is the handler's own affair.
    note_host_failure(invocation);
  }
  DevicePool& device_pool = invocation.on_host ? *host_ : *gpu_;
  complete(*slot, event.succeeded ? Outcome::kSucceeded : Outcome::kFunctionError, std::nullopt,
           "");
  after_run(device_pool, sandbox);
}

// ---- Dispatching

void Dispatcher::decide(DevicePool& device_pool) {
  if (draining_) return;
  while (queues_.pending(device_pool.processor) > 0 && device_pool.fleet.has_room()) {
    const scheduling::Decision decision =
        device_pool.policy->decide(view_of(device_pool), log_.now());
    if (!decision.dispatch) return;
    dispatch(device_pool, decision);
  }
}

void Dispatcher::dispatch(DevicePool& device_pool, const scheduling::Decision& decision) {
  const InvocationSlot slot = queues_.front(decision.function);
  CHECK(slot != kNoInvocation, "a policy dispatches only flows that have work");
  if (watcher_) {
    const scheduling::Device& device = device_pool.fleet.devices()[decision.place.device];
    watcher_(queues_[slot].id, decision.function, device.options.id);
  }
  flows_[decision.function.value].took_turn(log_.now());
  queues_.leave(slot);
  PendingInvocation& invocation = queues_[slot];
  invocation.dispatched = log_.now();
  invocation.device = device_pool.fleet.devices()[decision.place.device].options.id;
  Flow& flow = flows_[decision.function.value];
  ++flow.in_flight;
  flow.last_activity = log_.now();
  if (&device_pool == gpu_.get()) {
    gpu_runs_.add(slot);
    expect_end(invocation, decision.place.warm != scheduling::kNoSandbox);
  }
  if (decision.place.warm == scheduling::kNoSandbox) {
    start_in_new_sandbox(device_pool, slot, decision.place);
  } else {
    run(device_pool, decision.place.warm, slot);
  }
  device_pool.policy->dispatched(view_of(device_pool), decision.function, log_.now());
}

void Dispatcher::start_in_new_sandbox(DevicePool& device_pool, InvocationSlot slot,
                                      const scheduling::Place& place) {
  PendingInvocation& invocation = queues_[slot];
  const Flow& flow = flows_[invocation.function.value];
  const Bytes memory = device_pool.fleet.memory_of(flow, place.device);
  for (const SandboxSlot victim :
       device_pool.fleet.victims_for(place, memory, flows_, log_.now())) {
    ++counters_.evictions;
    stop_sandbox(device_pool, victim, StopReason::kEvicted);
  }
  const SandboxSlot sandbox = device_pool.fleet.plan(SandboxId{++sandbox_ids_}, invocation.function,
                                                     flow, place.device, log_.now());
  device_pool.fleet.assign(sandbox, slot);
  invocation.sandbox = sandbox;
  invocation.on_host = &device_pool == host_.get();
  invocation.state = InvocationState::kStarting;
  invocation.start = StartClass::kCold;
  if (device_pool.fleet.may_start(sandbox)) {
    start_sandbox(device_pool, sandbox);
  } else {
    device_pool.planned.push_back(sandbox);
  }
}

void Dispatcher::start_planned(DevicePool& device_pool) {
  std::erase_if(device_pool.planned, [&](SandboxSlot sandbox) {
    if (!device_pool.fleet.may_start(sandbox)) return false;
    start_sandbox(device_pool, sandbox);
    return true;
  });
}

void Dispatcher::run_ready(DevicePool& device_pool) {
  std::erase_if(device_pool.ready, [&](SandboxSlot sandbox) {
    if (!device_pool.fleet.may_run(sandbox)) return false;
    run(device_pool, sandbox, device_pool.fleet.sandbox(sandbox).invocation);
    return true;
  });
  // The others wait for a token, but not where only sandboxes that may never go hold any.
  for (size_t i = 0; i < device_pool.ready.size();) {
    const SandboxSlot sandbox = device_pool.ready[i];
    if (device_pool.fleet.devices()[device_pool.fleet.sandbox(sandbox).device].gives_tokens()) {
      ++i;
      continue;
    }
    device_pool.ready.erase(device_pool.ready.begin() + static_cast<ptrdiff_t>(i));
    return_to_queue(device_pool, sandbox);
    stop_sandbox(device_pool, sandbox, StopReason::kEvicted);
  }
}

uint64_t& Dispatcher::start_counter(StartClass start) {
  switch (start) {
    case StartClass::kCold:
      return counters_.cold_starts;
    case StartClass::kGpuCold:
      return counters_.gpu_cold_starts;
    case StartClass::kWarm:
      break;
  }
  return counters_.warm_starts;
}

void Dispatcher::run(DevicePool& device_pool, SandboxSlot sandbox, InvocationSlot slot) {
  PendingInvocation& invocation = queues_[slot];
  device_pool.deadlines.erase(sandbox);
  if (device_pool.fleet.sandbox(sandbox).prefetched) ++counters_.prefetch_hits;
  const bool memory_is_in = device_pool.fleet.run(sandbox, log_.now());
  device_pool.fleet.assign(sandbox, slot);
  if (invocation.state != InvocationState::kStarting) {
    invocation.start = memory_is_in ? StartClass::kWarm : StartClass::kGpuCold;
  }
  ++start_counter(invocation.start);
  if (invocation.is_cpu_variant()) ++counters_.host_runs;
  invocation.state = InvocationState::kRunning;
  invocation.started = log_.now();
  invocation.sandbox = sandbox;
  invocation.on_host = &device_pool == host_.get();
  invocation.awaits_memory = !memory_is_in;
  invocation.memory_time = {};
  time_run(slot);
  log_.add(StartInvocation{.invocation = invocation.id,
                           .sandbox = device_pool.fleet.sandbox(sandbox).id,
                           .device = invocation.device,
                           .start = invocation.start});
  if (!memory_is_in) await_memory(device_pool, sandbox);
}

// The timeout of a run counts from now if its memory is there.
void Dispatcher::time_run(InvocationSlot slot) {
  const PendingInvocation& invocation = queues_[slot];
  if (invocation.awaits_memory) {
    queues_.clear_deadline(slot);
  } else {
    queues_.start_timeout(slot, log_.now());
  }
}

// Says of each invocation that has become the first of its queue, and was not dispatched at once,
// what holds it back.
void Dispatcher::note_wait_reasons() {
  queues_.note_wait_reasons([&](FunctionId function) {
    return draining_ ? scheduling::WaitReason::kDraining : why_waiting(function);
  });
}

// ---- Devices, time, the end

void Dispatcher::on(const DeviceReading& event) {
  const auto device = gpu_->fleet.device_index(event.device);
  if (!device) {
    ++counters_.ignored_events;
    return;
  }
  const bool was_lost = gpu_->fleet.devices()[*device].lost;
  const bool was_healthy = gpu_->fleet.devices()[*device].healthy;
  gpu_->fleet.set_reading(*device, event.utilisation, event.healthy && !event.lost, event.lost);
  if (was_healthy && !gpu_->fleet.devices()[*device].healthy) away_since_[*device] = log_.now();
  if (was_healthy != gpu_->fleet.devices()[*device].healthy || was_lost != event.lost) {
    gpu_->policy->health_changed(view_of(*gpu_), log_.now());
  }
  if (event.lost && !was_lost) lose_device(*device);
  if (gpu_->fleet.devices()[*device].healthy) return;
  drop_planned(*gpu_, [&](const Sandbox& sandbox) { return sandbox.device == *device; });
}

void Dispatcher::on(const DeviceTaken& event) {
  const auto device = gpu_->fleet.device_index(event.device);
  if (!device) {
    ++counters_.ignored_events;
    return;
  }
  gpu_->fleet.set_taken(*device, event.bytes);
  drop_planned_beyond(*device);
}

void Dispatcher::on(const TimerFired&) {
  armed_ = kNever;
  while (queues_.any_expired(log_.now())) expire_invocation(queues_.pop_expired());
  for (DevicePool* device_pool : {gpu_.get(), host_.get()}) {
    while (device_pool->deadlines.any_until(log_.now())) {
      expire_sandbox(*device_pool, device_pool->deadlines.pop());
    }
    while (device_pool->moves.any_until(log_.now())) {
      const SandboxSlot slot = device_pool->moves.pop();
      if (device_pool->fleet.sandbox(slot).fetching > Bytes(0)) {
        end_fetch(*device_pool, slot, false);
        continue;
      }
      ++counters_.failed_moves;
      fail_move(*device_pool, slot);
    }
  }
}

void Dispatcher::on(const DrainStarted&) {
  draining_ = true;
  for (uint32_t id = 0; id < flows_.size(); ++id) {
    InvocationSlot slot = queues_.front(FunctionId{id});
    while (slot != kNoInvocation) {
      const InvocationSlot next = queues_[slot].later;
      if (!queues_[slot].asynchronous) {
        reject_queued(slot, {ErrorCode::kUnavailable, "the worker is stopping"});
      }
      slot = next;
    }
    stop_idle(FunctionId{id}, StopReason::kDrained);
  }
}

void Dispatcher::arm_timer() {
  // Time alone sends a function elsewhere that waits for a busy device.
  Instant earliest = std::min({armed_, gpu_->fleet.next_move(), ask_again_});
  earliest = queues_.earliest_deadline(earliest);
  for (auto* deadlines : {&gpu_->deadlines, &gpu_->moves, &host_->deadlines}) {
    earliest = deadlines->earliest(earliest);
  }
  // A wish that has become too early is left alone: it fires, finds nothing, and is made again.
  if (earliest >= armed_) return;
  armed_ = earliest;
  log_.add(WakeAt{earliest});
}

}  // namespace lambent::dispatch
