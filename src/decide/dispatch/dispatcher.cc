#include "decide/dispatch/dispatcher.h"

#include <utility>

#include "core/base/fetch_lines.h"
#include "decide/dispatch/dispatcher_state.h"

namespace lambent::dispatch {

Dispatcher::Dispatcher(DispatchOptions options, std::unique_ptr<scheduling::Policy> policy,
                       std::unique_ptr<scheduling::Policy> host_policy)
    : state_(
          std::make_unique<State>(std::move(options), std::move(policy), std::move(host_policy))) {}

Dispatcher::~Dispatcher() = default;

void Dispatcher::handle(const Event& event, Instant now, std::vector<Action>& out) {
  state_->handle(event, now, out);
}

void Dispatcher::watch(Watcher watcher) { state_->placements.watch(std::move(watcher)); }

void Dispatcher::foretell(scheduling::Foresight::Oracle oracle) {
  state_->pools.gpu.fleet().foresight().ask(std::move(oracle));
}

// ---- Ahead of an event. With thousands of functions few of these records were used lately, and
// each would be waited for by itself.

void Dispatcher::fetch_flow(FunctionId function) const {
  if (function.value < flows().size()) fetch_lines(flows()[function.value]);
  fleet().foresight().fetch(function);
}

void Dispatcher::fetch_place(FunctionId function) const {
  const scheduling::SandboxSlot slot = fleet().idle().newest_of(function);
  if (slot != scheduling::kNoSandbox) fetch_lines(fleet().sandbox(slot));
}

void Dispatcher::fetch_end(FunctionId function, scheduling::SandboxSlot slot,
                           uint32_t device) const {
  fetch_lines(fleet().sandbox(slot));
  fetch_lines(fleet().devices()[device]);
  fetch_flow(function);
  state_->pools.gpu.fetch_deadline(slot);
  fetch_place(function);
}

// ---- Status

const DispatchOptions& Dispatcher::options() const { return state_->options; }
const Counters& Dispatcher::counters() const { return std::as_const(state_->log).counters(); }
uint64_t Dispatcher::log_hash() const { return state_->log.hash(); }
size_t Dispatcher::queued() const { return state_->queues.queued(); }
size_t Dispatcher::queued_synchronous() const { return state_->queues.queued_synchronous(); }
size_t Dispatcher::in_flight() const { return state_->queues.in_flight(); }
const scheduling::Flows& Dispatcher::flows() const { return state_->flows; }
const scheduling::FlowSet& Dispatcher::waiting_for_gpu() const { return state_->queues.waiting(); }
const scheduling::Policy& Dispatcher::policy() const {
  return state_->pools.gpu.scheduler().policy();
}
InstanceStatus Dispatcher::instances(FunctionId function) const {
  return state_->instances.status(function);
}
const scheduling::Fleet& Dispatcher::fleet() const { return state_->pools.gpu.fleet(); }
const scheduling::Fleet& Dispatcher::host_fleet() const { return state_->pools.host.fleet(); }
uint64_t Dispatcher::starts_ahead() const { return state_->ahead.started(); }
uint64_t Dispatcher::joins() const {
  return state_->pools.gpu.shared().joins() + state_->pools.host.shared().joins();
}
size_t Dispatcher::joined(FunctionId function) const {
  size_t joined = 0;
  for (const DevicePool* pool : {&state_->pools.gpu, &state_->pools.host}) {
    for (const scheduling::SandboxSlot slot : pool->shared().of(function)) {
      joined += pool->shared().find(slot)->others.size();
    }
  }
  return joined;
}
SandboxId Dispatcher::next_sandbox() const { return state_->placements.next_sandbox(); }
bool Dispatcher::draining() const { return state_->admission.draining(); }

scheduling::FlowStatus Dispatcher::status(FunctionId function, Instant now) const {
  if (!is_registered(flows(), function)) return {};
  const PoolScheduler& scheduler = state_->pools.of(flows()[function.value]).scheduler();
  return scheduler.policy().status(scheduler.view(), function, now);
}

bool Dispatcher::drained() const {
  return draining() && in_flight() == 0 && fleet().all().empty() && host_fleet().all().empty();
}

std::optional<Explanation> Dispatcher::explain(InvocationId id, Instant now) const {
  return state_->explain(id, now);
}

std::vector<TokenHolder> Dispatcher::token_holders(Instant now) const {
  return state_->token_holders(now);
}

std::vector<TenantStatus> Dispatcher::tenant_status(Instant now) const {
  return state_->tenant_status(now);
}

const scheduling::Tenants& Dispatcher::tenants() const { return state_->tenants; }

// ---- As bytes

std::string Dispatcher::snapshot() const {
  std::string bytes;
  StateArchive archive(&bytes);
  // An archive that writes changes nothing.
  state_->archive(archive);
  return bytes;
}

bool Dispatcher::restore(std::string_view snapshot) {
  StateArchive archive(snapshot);
  state_->archive(archive);
  return archive.complete();
}

}  // namespace lambent::dispatch
