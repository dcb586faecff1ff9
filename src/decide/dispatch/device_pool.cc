#include "decide/dispatch/device_pool.h"

#include <algorithm>
#include <utility>

#include "decide/scheduling/place_victims.h"

namespace lambent::dispatch {

using scheduling::Sandbox;
using scheduling::SandboxSlot;
using scheduling::SandboxState;

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
  const scheduling::Flow& flow = flows_[function.value];
  const Bytes memory = fleet().memory_of(flow, place.device);
  for (const SandboxSlot victim : victims_for(fleet(), place, memory, flows_, log_.now())) {
    evict(victim);
  }
  const SandboxSlot slot = fleet().plan(id, function, flow, place.device, log_.now());
  fleet().assign(slot, invocation);
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
                        .device = fleet().devices()[sandbox.device].options.id});
}

void DevicePool::started(SandboxSlot slot) {
  deadlines_.erase(slot);
  scheduler_.places_changed(slot);
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
  fleet().rest(slot, log_.now());
  count(slot, SandboxAccounts::Use::kIdle);
  deadlines_.put(slot, log_.now() + options_.keep_alive);
  scheduler_.places_changed(slot);
  moves_.rest(slot);
}

void DevicePool::stop(SandboxSlot slot, StopReason reason) {
  moves_.forget(slot);
  fleet().stop(slot, log_.now());
  count(slot, SandboxAccounts::Use::kNone);
  deadlines_.put(slot, log_.now() + options_.stop_timeout);
  log_.add(StopSandbox{fleet().sandbox(slot).id, reason});
  scheduler_.places_changed(slot);
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
  deadlines_.erase(slot);
  waits_.forget_ready(slot);
  moves_.forget(slot);
  count(slot, SandboxAccounts::Use::kNone);
  const FunctionId function = fleet().sandbox(slot).function;
  fleet().remove(slot);
  scheduler_.places_changed(function);
}

void DevicePool::keep_counting(SandboxSlot slot) {
  fleet().keep_counting(slot);
  count(slot, SandboxAccounts::Use::kAtWork);
}

void DevicePool::count(SandboxSlot slot, SandboxAccounts::Use use) {
  if (!tenants_.limit_memory()) return;
  const Sandbox& sandbox = fleet().sandbox(slot);
  const scheduling::Flow& flow = flows_[sandbox.function.value];
  accounts_.put(slot, flow.tenant_slot, {.gpu = sandbox.memory, .host = flow.host_memory}, use);
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
