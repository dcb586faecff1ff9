// The part of Dispatcher::State that answers questions and changes nothing.
#include <algorithm>
#include <tuple>

#include "decide/dispatch/dispatcher_state.h"

namespace lambent::dispatch {

using scheduling::Sandbox;
using scheduling::WaitReason;

std::optional<Explanation> Dispatcher::State::explain(InvocationId id, Instant now) {
  const auto slot = queues.find(id);
  if (!slot) return std::nullopt;
  const PendingInvocation& invocation = queues[*slot];
  Explanation explanation{.state = invocation.state,
                          .function = invocation.function,
                          .waited = invocation.dispatched - invocation.submitted,
                          .reason = invocation.state == InvocationState::kQueued
                                        ? invocation.wait.reason()
                                        : invocation.wait.told(now),
                          .host_reason = invocation.host_reason,
                          .expected_with_gpu = invocation.expected_with_gpu,
                          .expected_with_host = invocation.expected_with_host};
  if (invocation.state != InvocationState::kQueued) {
    if (placements.waits_for_moves(invocation)) explanation.reason = WaitReason::kMemoryMoving;
    if (placements.waits_for_token(invocation)) {
      // Its sandbox is there, and it waits again.
      explanation.state = InvocationState::kQueued;
      explanation.reason = WaitReason::kNoToken;
      explanation.waited =
          now - invocation.submitted - invocation.sandbox_time - invocation.init_time;
    }
    return explanation;
  }
  explanation.waited = now - invocation.submitted;
  if (admission.draining()) {
    explanation.reason = WaitReason::kDraining;
  } else if (queues.front(invocation.function) == *slot) {
    explanation.reason = why_waiting(invocation.function);
  }
  return explanation;
}

std::vector<TokenHolder> Dispatcher::State::token_holders(Instant now) const {
  const scheduling::Fleet& fleet = pools.gpu.fleet();
  std::vector<TokenHolder> holders;
  for (const scheduling::SandboxSlot slot : fleet.all()) {
    const Sandbox& sandbox = fleet.sandbox(slot);
    if (sandbox.holds != Sandbox::Holds::kToken) continue;
    TokenHolder holder{.device = fleet.devices()[sandbox.device].options.id,
                       .function = sandbox.function,
                       .held = now - sandbox.since};
    if (sandbox.has_invocation) {
      const PendingInvocation& invocation = queues[sandbox.invocation];
      holder.invocation = invocation.id;
      holder.state = invocation.state;
      holder.held = now - invocation.dispatched;
      holder.most_left = most_left(slot, now);
    }
    sandbox.for_each_device([&](uint32_t index) {
      holder.device = fleet.devices()[index].options.id;
      holders.push_back(holder);
    });
  }
  std::sort(holders.begin(), holders.end(), [](const TokenHolder& one, const TokenHolder& other) {
    return std::tuple(one.device, other.held, one.function) <
           std::tuple(other.device, one.held, other.function);
  });
  return holders;
}

std::vector<TenantStatus> Dispatcher::State::tenant_status(Instant now) const {
  std::vector<TenantStatus> all;
  for (uint32_t slot = 0; slot < tenants.size(); ++slot) {
    const scheduling::TenantAccount& account = tenants[slot];
    all.push_back({.id = account.id,
                   .weight = account.weight,
                   .virtual_service = pools.gpu.scheduler().policy().tenant_virtual_time(slot),
                   .running = account.running,
                   .gpu_time_in_hour = account.hour.used_at(now),
                   .at_work = account.at_work});
  }
  for (const scheduling::Flow& flow : flows) {
    if (flow.tenant_slot >= all.size()) continue;
    TenantStatus& of_it = all[flow.tenant_slot];
    of_it.waiting += flow.pending;
    of_it.pending.gpu += flow.whole_device_memory() * flow.pending;
    of_it.pending.host += flow.host_memory * flow.pending;
    of_it.largest.gpu = std::max(of_it.largest.gpu, flow.whole_device_memory());
    of_it.largest.host = std::max(of_it.largest.host, flow.host_memory);
  }
  for (const DevicePool* pool : {&pools.gpu, &pools.host}) {
    for (const scheduling::SandboxSlot slot : pool->fleet().all()) {
      const Sandbox& sandbox = pool->fleet().sandbox(slot);
      const scheduling::Flow& flow = flows[sandbox.function.value];
      const bool leaves = sandbox.state == scheduling::SandboxState::kStopping && !sandbox.hangs;
      if (leaves || flow.tenant_slot >= all.size()) continue;
      all[flow.tenant_slot].gpu_memory += sandbox.memory * sandbox.devices();
      all[flow.tenant_slot].host_memory += flow.host_memory;
    }
  }
  return all;
}

// What is not begun yet has its whole timeout before it, after the rest of its start or of the way
// of its memory, each of which has a limit of its own.
std::optional<Duration> Dispatcher::State::most_left(scheduling::SandboxSlot slot,
                                                     Instant now) const {
  const Sandbox& sandbox = pools.gpu.fleet().sandbox(slot);
  const PendingInvocation& invocation = queues[sandbox.invocation];
  const Duration timeout = flows[invocation.function.value].timeout;
  if (timeout.count() <= 0) return std::nullopt;
  if (invocation.state == InvocationState::kRunning && !invocation.awaits_memory) {
    const Instant deadline = queues.deadline_of(sandbox.invocation);
    return deadline != kNever ? std::optional(deadline - now) : std::nullopt;
  }
  Duration before{};
  if (invocation.awaits_memory) before = options.move_wait() + options.move_timeout;
  if (const Instant ready = pools.gpu.deadline_of(slot); ready != kNever) before += ready - now;
  return before + timeout;
}

}  // namespace lambent::dispatch
