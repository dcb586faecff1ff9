#include "decide/dispatch/device_pool.h"

#include <algorithm>
#include <utility>

#include "decide/scheduling/place_victims.h"

namespace lambent::dispatch {

using scheduling::Sandbox;
using scheduling::SandboxSlot;
using scheduling::SandboxState;

namespace {

// Between two looks whether a sandbox that is kept has become one too many.
constexpr Duration kLeastRestOn = seconds(60);

}  // namespace

DevicePool::DevicePool(Processor processor, scheduling::FleetOptions fleet,
                       std::unique_ptr<scheduling::Policy> policy, const DispatchOptions& options,
                       const scheduling::Flows& flows, scheduling::Tenants& tenants, ActionLog& log)
    : processor_(processor),
      options_(options),
      flows_(flows),
      tenants_(tenants),
      log_(log),
      scheduler_(std::move(fleet), std::move(policy), flows, tenants, log),
      moves_(scheduler_, options, log),
      waits_(scheduler_.fleet()),
      accounts_(tenants) {}

SandboxSlot DevicePool::plan(SandboxId id, FunctionId function, const scheduling::Place& place,
                             InvocationSlot invocation) {
  const SandboxSlot slot = plan_ahead(id, function, place);
  fleet().assign(slot, invocation);
  return slot;
}

SandboxSlot DevicePool::start_ahead_of(FunctionId function) const {
  const bool starts_some = fleet().foresight().learns() || flows_[function.value].min_instances > 0;
  if (!starts_some || fleet().starts_of(function) == 0) return scheduling::kNoSandbox;
  for (const SandboxSlot slot : fleet().all()) {
    const Sandbox& sandbox = fleet().sandbox(slot);
    if (sandbox.function == function && is_start(sandbox.state) && !sandbox.has_invocation &&
        sandbox.revision == flows_[function.value].revision) {
      return slot;
    }
  }
  return scheduling::kNoSandbox;
}

SandboxSlot DevicePool::plan_ahead(SandboxId id, FunctionId function,
                                   const scheduling::Place& place) {
  const scheduling::Flow& flow = flows_[function.value];
  const Bytes memory = fleet().memory_of(flow, place.device);
  for (const SandboxSlot victim : victims_for(fleet(), place, memory, flows_, log_.now())) {
    evict(victim);
  }
  const SandboxSlot slot = fleet().plan(id, function, flow, place, log_.now());
  count(slot, SandboxAccounts::Use::kAtWork);
  return slot;
}

void DevicePool::start(SandboxSlot slot) {
  if (fleet().sandbox(slot).state == SandboxState::kPlanned) fleet().start(slot, log_.now());
  const Sandbox& sandbox = fleet().sandbox(slot);
  ++log_.counters().sandboxes_started;
  // As Lambda does it: a start may take as long as its function may run, if that is longer.
  const Duration longest = std::max(options_.init_timeout, flows_[sandbox.function.value].timeout);
  deadlines_.put(slot, log_.now() + longest);
  log_.add(StartSandbox{.sandbox = sandbox.id,
                        .function = sandbox.function,
                        .revision = sandbox.revision,
                        .device = fleet().devices()[sandbox.device].options.id,
                        .ahead = !sandbox.has_invocation,
                        .beside = beside_of(slot)});
}

SandboxSlot DevicePool::keep(SandboxId id, FunctionId function, const scheduling::Place& place,
                             const scheduling::MemoryPlace& memory) {
  const SandboxSlot slot = plan_ahead(id, function, place);
  fleet().start(slot, log_.now());
  if (fleet().memory().moves_idle()) fleet().memory().place(slot, memory);
  started(slot);
  rest(slot);
  return slot;
}

// By their ids, which count from 1.
uint64_t DevicePool::beside_of(SandboxSlot slot) const {
  uint64_t ids = 0;
  scheduling::for_each_device_in(fleet().sandbox(slot).beside, [&](uint32_t index) {
    ids |= uint64_t{1} << (fleet().devices()[index].options.id.value - 1);
  });
  return ids;
}

void DevicePool::started(SandboxSlot slot) {
  deadlines_.erase(slot);
  scheduler_.places_changed(slot);
  note_changed(fleet().sandbox(slot).function);
}

bool DevicePool::run(SandboxSlot slot, InvocationSlot invocation) {
  deadlines_.erase(slot);
  if (fleet().sandbox(slot).prefetched) ++log_.counters().prefetch_hits;
  const bool memory_is_in = fleet().run(slot, log_.now());
  fleet().assign(slot, invocation);
  count(slot, SandboxAccounts::Use::kAtWork);
  return memory_is_in;
}

void DevicePool::rest(SandboxSlot slot) {
  shared_.end(slot);
  fleet().rest(slot, log_.now());
  count(slot, SandboxAccounts::Use::kIdle);
  deadlines_.put(slot, log_.now() + keep_alive_of(slot));
  scheduler_.places_changed(slot);
  moves_.rest(slot);
}

void DevicePool::rest_on(SandboxSlot slot) {
  deadlines_.put(slot, log_.now() + std::max(keep_alive_of(slot), kLeastRestOn));
}

void DevicePool::note_changed(FunctionId function, bool evicted_unused) {
  if (flows_[function.value].min_instances > 0) changed_.push_back({function, evicted_unused});
}

// One that was started ahead of a call stays at least for as long as that was expected within.
Duration DevicePool::keep_alive_of(SandboxSlot slot) const {
  const Sandbox& sandbox = fleet().sandbox(slot);
  const Duration own = flows_[sandbox.function.value].keep_alive;
  const Duration keep_alive = own.count() > 0 ? own : options_.keep_alive;
  if (sandbox.served > 0) return keep_alive;
  return std::max(keep_alive, fleet().foresight().expectation(sandbox.function).within);
}

void DevicePool::stop(SandboxSlot slot, StopReason reason) {
  shared_.end(slot);
  moves_.forget(slot);
  const Sandbox& stopped = fleet().sandbox(slot);
  // One that was started ahead in vain is not started again before the next call.
  const bool rested = stopped.state == SandboxState::kIdle && stopped.served > 0;
  fleet().stop(slot, log_.now());
  if (rested && (reason == StopReason::kEvicted || reason == StopReason::kIdle)) {
    plan_look(fleet().sandbox(slot).function);
  }
  count(slot, SandboxAccounts::Use::kNone);
  deadlines_.put(slot, log_.now() + options_.stop_timeout);
  log_.add(StopSandbox{fleet().sandbox(slot).id, reason});
  scheduler_.places_changed(slot);
  const Sandbox& told = fleet().sandbox(slot);
  note_changed(told.function, reason == StopReason::kEvicted && told.served == 0);
}

void DevicePool::plan_look(FunctionId function) {
  const scheduling::Flow& flow = flows_[function.value];
  const Duration cold_start = flow.cold_start.mean_or(options_.fleet.guesses.cold_start);
  fleet().foresight().plan_look(function, flow, cold_start, log_.now());
}

void DevicePool::evict(SandboxSlot slot) {
  ++log_.counters().evictions;
  stop(slot, StopReason::kEvicted);
}

void DevicePool::stop_idle(FunctionId function, StopReason reason) {
  for (const SandboxSlot slot : fleet().idle().of(function)) stop(slot, reason);
}

void DevicePool::retire_others(FunctionId function, uint64_t revision) {
  for (const SandboxSlot slot : fleet().idle().of(function)) {
    if (fleet().sandbox(slot).revision != revision) stop(slot, StopReason::kRetired);
  }
}

void DevicePool::remove(SandboxSlot slot) {
  shared_.end(slot);
  deadlines_.erase(slot);
  waits_.forget_ready(slot);
  moves_.forget(slot);
  count(slot, SandboxAccounts::Use::kNone);
  const FunctionId function = fleet().sandbox(slot).function;
  fleet().remove(slot);
  scheduler_.places_changed(function);
  note_changed(function);
}

void DevicePool::keep_counting(SandboxSlot slot) {
  fleet().keep_counting(slot);
  count(slot, SandboxAccounts::Use::kAtWork);
}

void DevicePool::count(SandboxSlot slot, SandboxAccounts::Use use) {
  if (!tenants_.limit_memory()) return;
  const Sandbox& sandbox = fleet().sandbox(slot);
  const scheduling::Flow& flow = flows_[sandbox.function.value];
  accounts_.put(slot, flow.tenant_slot,
                {.gpu = sandbox.memory * sandbox.devices(), .host = flow.host_memory}, use);
}

void DevicePool::count_for_tenants() {
  for (const SandboxSlot slot : fleet().all()) {
    const Sandbox& sandbox = fleet().sandbox(slot);
    const bool leaves = sandbox.state == SandboxState::kStopping && !sandbox.hangs;
    const bool rests = sandbox.state == SandboxState::kIdle;
    count(slot, leaves  ? SandboxAccounts::Use::kNone
                : rests ? SandboxAccounts::Use::kIdle
                        : SandboxAccounts::Use::kAtWork);
  }
}

void DevicePool::archive_tenants(StateArchive& archive) {
  accounts_.archive(archive);
  if (archive.ok()) scheduler_.archive_tenants(archive);
}

void DevicePool::archive(StateArchive& archive, Queues& queues) {
  scheduler_.archive(archive);
  queues.archive_pending(archive, processor_);
  waits_.archive(archive);
  moves_.archive_lists(archive);
  deadlines_.archive(archive);
  moves_.archive_deadlines(archive);
}

}  // namespace lambent::dispatch
