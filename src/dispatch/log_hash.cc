#include "dispatch/log_hash.h"

#include <bit>

namespace lambent::dispatch {
namespace {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace

void LogHash::add(const Event& event, Instant now) {
  mix(event.index());
  mix(now.time_since_epoch());
  std::visit(Overloaded{
                 [&](const FunctionRegistered& e) {
                   mix(e.profile.id.value);
                   mix(e.profile.tenant.value);
                   mix(e.profile.revision);
                   mix(std::bit_cast<uint64_t>(e.profile.weight));
                   mix(e.profile.max_concurrency);
                   mix(e.profile.device_memory);
                   mix(e.profile.timeout);
                   mix(e.profile.mean_execution);
                   mix(e.profile.mean_interarrival);
                   mix(e.profile.mean_cold_start);
                   mix(e.profile.completed);
                 },
                 [&](const FunctionRemoved& e) { mix(e.function.value); },
                 [&](const InvocationSubmitted& e) {
                   mix(e.invocation);
                   mix(e.function.value);
                   mix(e.asynchronous);
                 },
                 [&](const InvocationCancelled& e) { mix(e.invocation); },
                 [&](const SandboxReady& e) {
                   mix(e.sandbox.value);
                   mix(e.sandbox_time);
                   mix(e.init_time);
                 },
                 [&](const SandboxExited& e) {
                   mix(e.sandbox.value);
                   mix(e.undelivered);
                 },
                 [&](const InvocationFinished& e) {
                   mix(e.invocation);
                   mix(e.execution);
                   mix(e.succeeded);
                   mix(e.device_memory);
                 },
                 [&](const DeviceReading& e) {
                   mix(e.device.value);
                   mix(std::bit_cast<uint64_t>(e.utilisation));
                   mix(e.memory_used);
                   mix(e.healthy);
                 },
                 [](const TimerFired&) {},
                 [](const DrainStarted&) {},
             },
             event);
}

void LogHash::add(const Action& action) {
  mix(~static_cast<uint64_t>(action.index()));
  std::visit(Overloaded{
                 [&](const StartSandbox& a) {
                   mix(a.sandbox.value);
                   mix(a.function.value);
                   mix(a.revision);
                   mix(a.device.value);
                 },
                 [&](const StartInvocation& a) {
                   mix(a.invocation);
                   mix(a.sandbox.value);
                   mix(a.device.value);
                   mix(static_cast<uint64_t>(a.start));
                 },
                 [&](const StopSandbox& a) {
                   mix(a.sandbox.value);
                   mix(static_cast<uint64_t>(a.reason));
                 },
                 [&](const CompleteInvocation& a) {
                   mix(a.invocation);
                   mix(static_cast<uint64_t>(a.outcome));
                   mix(a.error ? static_cast<uint64_t>(a.error->code) : 0);
                   mix(static_cast<uint64_t>(a.start));
                   mix(a.phases.queue);
                   mix(a.phases.sandbox);
                   mix(a.phases.init);
                   mix(a.phases.run);
                   mix(a.device.value);
                   mix(static_cast<uint64_t>(a.wait_reason));
                 },
                 [&](const WakeAt& a) { mix(a.instant.time_since_epoch()); },
             },
             action);
}

}  // namespace lambent::dispatch
