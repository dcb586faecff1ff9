#include "decide/dispatch/dispatcher_state.h"

#include <algorithm>
#include <utility>

namespace lambent::dispatch {

using scheduling::Sandbox;
using scheduling::SandboxState;

namespace {

DispatchOptions adapted(DispatchOptions options, const scheduling::Policy& policy) {
  policy.adapt(options.fleet);
  return options;
}

}  // namespace

Dispatcher::State::State(DispatchOptions options_in, std::unique_ptr<scheduling::Policy> policy,
                         std::unique_ptr<scheduling::Policy> host_policy)
    : options(adapted(std::move(options_in), *policy)),
      pools(options, std::move(policy), std::move(host_policy), flows, tenants, log) {}

void Dispatcher::State::handle(const Event& event, Instant now, std::vector<Action>& out) {
  log.begin(event, now, out);
  for (DevicePool* pool : pools.all()) pool->fleet().set_time(now);
  tenants.set_time(now);
  std::visit([this](const auto& e) { on(e); }, event);
  if (tenants.limit_memory()) room.settle();
  overflow.rank_functions(now);
  for (DevicePool* pool : pools.all()) {
    pool->moves().move_in_wanting();
    pool->moves().grant_fetches();
    placements.start_planned(*pool);
    placements.run_ready(*pool);
    if (!pool->is_host()) gangs.look();
    decide(*pool);
  }
  // An idle sandbox on a GPU may have made way for the host memory of one without: what waited for
  // it may have a place elsewhere now.
  if (tenants.limit_memory()) decide(pools.gpu);
  send_to_host();
  instances.look();
  relieve_gpus();
  ahead.look();
  instances.note_later_changes();
  if (queues.has_new_heads()) note_wait_reasons(false);
  arm_timer();
  if (options.tells_longest_wait) note_wait_reasons(true);
  log.end();
}

void Dispatcher::State::decide(DevicePool& pool) {
  if (admission.draining()) return;
  if (!queues.waiting_sharers().empty()) placements.join_those_at_work(pool);
  while (queues.pending(pool.processor()) > 0 && pool.fleet().device_table().any_open()) {
    const scheduling::Decision decision = pool.scheduler().decide();
    if (!decision.dispatch) return;
    placements.dispatch(pool, decision);
    // Others may follow it.
    if (!queues.waiting_sharers().empty()) placements.join_those_at_work(pool);
  }
}

// After both device pools have decided, so that functions without GPU go first and a GPU that is
// free is used. One by one: each that leaves makes the queue shorter for those behind it.
void Dispatcher::State::send_to_host() {
  while (const auto choice = overflow.choose(!admission.draining(), log.now())) {
    placements.dispatch_on_host(*choice);
    // Without it another flow may be the furthest behind, or fit.
    decide(pools.gpu);
  }
}

void Dispatcher::State::relieve_gpus() {
  scheduling::Fleet& fleet = pools.gpu.fleet();
  if (!fleet.memory().moves_idle()) {
    if (pressure.make_room_beside_taken()) decide(pools.gpu);
    return;
  }
  for (;;) {
    const size_t idle = fleet.device_table().idle_sandboxes();
    const bool is_wanted = queues.pending(Processor::kGpu) > 0;
    pressure.make_room();
    if (is_wanted && !admission.draining()) pressure.prefetch();
    if (fleet.device_table().idle_sandboxes() == idle || !is_wanted) break;
    // An invocation that waited for a sandbox which was evicted may have a place elsewhere now.
    decide(pools.gpu);
  }
  pressure.move_out_early();
  fleet.memory().settled();
}

// Gives each invocation that has become the first of its queue, and was not dispatched at once, the
// reason why it waits; or one that has been the first for longer, now and then. That is after the
// timer was armed, for to ask decides nothing then.
void Dispatcher::State::note_wait_reasons(bool of_standing_heads) {
  const auto reason_of = [&](FunctionId function) {
    return admission.draining() ? scheduling::WaitReason::kDraining : why_waiting(function);
  };
  if (of_standing_heads) return queues.look_at_a_head(log.now(), reason_of);
  queues.note_wait_reasons(log.now(), reason_of);
}

// Of the first in the flow's queue.
scheduling::WaitReason Dispatcher::State::why_waiting(FunctionId function) {
  const scheduling::Flow& flow = flows[function.value];
  const scheduling::WaitReason hold =
      flow.max_concurrency == 0 ? tenants.hold_on_host(flow) : tenants.hold_of(flow);
  if (hold != scheduling::WaitReason::kNone) return hold;
  if (flow.max_concurrency == 0) return scheduling::WaitReason::kHostBusy;
  const PoolScheduler& scheduler = pools.of(flow).scheduler();
  return scheduler.policy().why_waiting(scheduler.view(), function);
}

void Dispatcher::State::arm_timer() {
  // Time by itself sends a function elsewhere that waits for a busy device.
  Instant earliest =
      std::min({armed_, pools.gpu.fleet().places().next_move(), overflow.ask_again()});
  earliest = queues.earliest_deadline(earliest);
  if (options.fleet.foresight.starts_ahead) earliest = ahead.next_look(earliest);
  earliest = instances.next_look(earliest);
  earliest = gangs.next_look(earliest);
  earliest = std::min(earliest, tenants.next_release(log.now()));
  for (DevicePool* pool : pools.all()) earliest = pool->earliest_deadline(earliest);
  // A wish that has become too early is left alone: it fires, finds nothing, and is made again.
  if (earliest >= armed_) return;
  armed_ = earliest;
  log.add(WakeAt{earliest});
}

// ---- Devices, time, the end

void Dispatcher::State::on(const DeviceReading& event) {
  scheduling::Fleet& fleet = pools.gpu.fleet();
  const auto index = fleet.device_index(event.device);
  if (!index) {
    ++log.counters().ignored_events;
    return;
  }
  const scheduling::Device& device = fleet.devices()[*index];
  const bool was_lost = device.lost;
  const bool was_healthy = device.healthy;
  fleet.set_reading(*index, event.utilisation, event.healthy && !event.lost, event.lost);
  if (was_healthy && !device.healthy) overflow.note_unhealthy(*index, log.now());
  if (was_healthy != device.healthy || was_lost != event.lost) {
    pools.gpu.scheduler().health_changed();
  }
  if (event.lost && !was_lost) outcomes.lose_device(*index);
  if (device.healthy) return;
  placements.drop_planned(pools.gpu, [&](const Sandbox& sandbox) { return sandbox.is_on(*index); });
}

void Dispatcher::State::on(const DeviceTaken& event) {
  const auto device = pools.gpu.fleet().device_index(event.device);
  if (!device) {
    ++log.counters().ignored_events;
    return;
  }
  pools.gpu.fleet().set_taken(*device, event.bytes);
  placements.drop_planned_beyond(*device);
}

void Dispatcher::State::on(const TimerFired&) {
  armed_ = kNever;
  while (queues.any_expired(log.now())) outcomes.expire(queues.pop_expired());
  for (DevicePool* pool : pools.all()) {
    while (pool->any_expired(log.now())) outcomes.expire(*pool, pool->pop_expired());
    MemoryMoves& moves = pool->moves();
    while (moves.any_expired(log.now())) {
      const scheduling::SandboxSlot slot = moves.pop_expired();
      if (pool->fleet().sandbox(slot).fetching > Bytes(0)) {
        moves.refuse_fetch(slot);
        continue;
      }
      ++log.counters().failed_moves;
      outcomes.fail_move(*pool, slot);
    }
  }
}

void Dispatcher::State::on(const DrainStarted&) {
  admission.start_drain();
  for (uint32_t id = 0; id < flows.size(); ++id) {
    admission.reject_synchronous(FunctionId{id});
    for (DevicePool* pool : pools.all()) pool->stop_idle(FunctionId{id}, StopReason::kDrained);
  }
}

// ---- Tenants

void Dispatcher::State::on(const TenantChanged& event) {
  const bool limited_memory = tenants.limit_memory();
  tenants.change(event.tenant, event.weight,
                 {.concurrency = event.concurrency,
                  .gpu_memory = event.gpu_memory,
                  .gpu_time_per_hour = event.gpu_time_per_hour,
                  .host_memory = event.host_memory},
                 log.now());
  if (tenants.limit_memory() && !limited_memory) {
    for (DevicePool* pool : pools.all()) pool->count_for_tenants();
  }
  // Of those without a queue there is nothing to reject.
  std::vector<FunctionId> waiting;
  queues.for_each_waiting([&](FunctionId id) {
    const scheduling::Flow& flow = flows[id.value];
    if (flow.registered && flow.tenant == event.tenant) waiting.push_back(id);
  });
  std::sort(waiting.begin(), waiting.end());
  for (const FunctionId id : waiting) admission.reject_unservable(id);
}

void Dispatcher::State::on(const GpuTimeUsed& event) {
  if (!tenants.remember_gpu_time(event.tenant, event.time, event.age, log.now())) {
    ++log.counters().ignored_events;
  }
}

// ---- The host's memory

void Dispatcher::State::on(const SandboxCrowdedOut& event) {
  for (DevicePool* pool : pools.all()) {
    const auto slot = pool->fleet().find(event.sandbox);
    if (!slot || pool->fleet().sandbox(*slot).state != SandboxState::kIdle) continue;
    const FunctionId function = pool->fleet().sandbox(*slot).function;
    pool->evict(*slot);
    // It is not wanted before its next call: none is started ahead of that.
    return pool->fleet().foresight().no_look(function);
  }
  ++log.counters().ignored_events;
}

// ---- Memory that moves

void Dispatcher::State::on(const MemoryMoved& event) {
  DevicePool& pool = pools.gpu;
  const auto slot = pool.fleet().find(event.sandbox);
  if (!slot || !pool.moves().is_moving(*slot, event.direction)) {
    ++log.counters().ignored_events;
    return;
  }
  switch (pool.moves().end(*slot, event)) {
    case MoveEnd::kDone:
      return;
    case MoveEnd::kArrived:
      return placements.memory_arrived(pool, *slot);
    case MoveEnd::kInFailed:
      return pressure.move_in_failed(*slot);
    case MoveEnd::kInGivenUp:
      return outcomes.fail_move(pool, *slot);
    case MoveEnd::kOutFailed:
      return pressure.move_out_failed(*slot);
  }
}

void Dispatcher::State::on(const MemoryWanted& event) {
  const auto found = pools.find(event.sandbox);
  const Sandbox* sandbox = found ? &found->pool.fleet().sandbox(found->slot) : nullptr;
  if (sandbox == nullptr || sandbox->state == SandboxState::kStopping ||
      sandbox->state == SandboxState::kPlanned || sandbox->fetching > Bytes(0)) {
    ++log.counters().ignored_events;
    return;
  }
  found->pool.moves().want(found->slot, event.bytes);
}

}  // namespace lambent::dispatch
