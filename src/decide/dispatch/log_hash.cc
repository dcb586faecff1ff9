#include "decide/dispatch/log_hash.h"

#include <bit>

namespace lambent::dispatch {
namespace {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

// What tells the kinds apart; events have their index.
enum Kind : uint64_t {
  kStartSandbox = 64,
  kStartInvocation,
  kStopSandbox,
  kComplete,
  kWakeAt,
  kMoveMemoryIn,
  kMoveMemoryOut,
  kGrantMemory,
};

}  // namespace

void LogHash::add(const Event& event, Instant now) {
  const uint64_t kind = event.index();
  const int64_t at = now.time_since_epoch().count();
  std::visit(
      Overloaded{
          [&](const FunctionRegistered& e) {
            const FunctionProfile& p = e.profile;
            mix(kind, at, p.id.value, p.tenant.value, p.revision, std::bit_cast<uint64_t>(p.weight),
                p.max_concurrency, p.device_memory.count, p.timeout.count(),
                uint64_t{p.memory_moves} | uint64_t{p.checkpoints} << 1 |
                    uint64_t{p.has_cpu_variant} << 2,
                p.mean_execution.count(), p.mean_interarrival.count(), p.mean_cold_start.count(),
                p.completed);
            if (!p.has_cpu_variant) return;
            mix(kind, std::bit_cast<uint64_t>(p.gpu_speedup), p.mean_host_execution.count(),
                p.mean_host_cold_start.count(), p.completed_on_host);
          },
          [&](const FunctionRemoved& e) { mix(kind, at, e.function.value); },
          [&](const InvocationSubmitted& e) {
            mix(kind, at, e.invocation.high, e.invocation.low, e.function.value,
                uint64_t{e.asynchronous} | uint64_t{e.acknowledged} << 1 |
                    uint64_t{e.within_run} << 2);
          },
          [&](const InvocationCancelled& e) { mix(kind, at, e.invocation.high, e.invocation.low); },
          [&](const SandboxReady& e) {
            mix(kind, at, e.sandbox.value, e.sandbox_time.count(), e.init_time.count());
          },
          [&](const SandboxExited& e) { mix(kind, at, e.sandbox.value, e.undelivered); },
          [&](const InvocationFinished& e) {
            mix(kind, at, e.invocation.high, e.invocation.low, e.execution.count(), e.succeeded,
                e.device_memory.count);
          },
          [&](const DeviceReading& e) {
            mix(kind, at, e.device.value, std::bit_cast<uint64_t>(e.utilisation),
                e.memory_used.count, e.healthy, e.lost);
          },
          [&](const TimerFired&) { mix(kind, at); },
          [&](const DrainStarted&) { mix(kind, at); },
          [&](const MemoryMoved& e) {
            mix(kind, at, e.sandbox.value, e.direction, e.done, e.moved.count, e.left.count,
                e.offloaded.count, e.duration.count());
          },
          [&](const MemoryWanted& e) { mix(kind, at, e.sandbox.value, e.bytes.count); },
          [&](const DeviceTaken& e) { mix(kind, at, e.device.value, e.bytes.count); },
      },
      event);
}

void LogHash::add(const StartSandbox& a) {
  mix(kStartSandbox, a.sandbox.value, a.function.value, a.revision, a.device.value);
}

void LogHash::add(const StartInvocation& a) {
  mix(kStartInvocation, a.invocation.high, a.invocation.low, a.sandbox.value, a.device.value,
      a.start);
}

void LogHash::add(const StopSandbox& a) { mix(kStopSandbox, a.sandbox.value, a.reason); }

void LogHash::add(const CompleteInvocation& a) {
  const uint64_t error = a.error ? static_cast<uint64_t>(a.error->code) : 0;
  mix(kComplete, a.invocation.high, a.invocation.low, a.outcome, error, a.start,
      a.phases.queue.count(), a.phases.sandbox.count(), a.phases.init.count(),
      a.phases.memory.count(), a.phases.run.count(), a.device.value, a.wait_reason);
  if (a.retry_after.count() != 0) mix(kComplete, a.retry_after.count());
}

void LogHash::add(const WakeAt& a) { mix(kWakeAt, a.instant.time_since_epoch().count()); }

void LogHash::add(const MoveMemoryIn& a) { mix(kMoveMemoryIn, a.sandbox.value); }

void LogHash::add(const MoveMemoryOut& a) { mix(kMoveMemoryOut, a.sandbox.value, a.depth); }

void LogHash::add(const GrantMemory& a) { mix(kGrantMemory, a.sandbox.value, a.bytes.count); }

}  // namespace lambent::dispatch
