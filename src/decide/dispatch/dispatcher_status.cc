// The part of Dispatcher that answers questions and changes nothing.
#include <algorithm>
#include <tuple>

#include "decide/dispatch/device_pool.h"
#include "decide/dispatch/dispatcher.h"

namespace lambent::dispatch {

std::string_view name_of(InvocationState state) {
  switch (state) {
    case InvocationState::kQueued:
      return "queued";
    case InvocationState::kStarting:
      return "starting";
    case InvocationState::kRunning:
      return "running";
  }
  return "";
}

const scheduling::Policy& Dispatcher::policy() const { return *gpu_->policy; }
const scheduling::Fleet& Dispatcher::fleet() const { return gpu_->fleet; }
const scheduling::Fleet& Dispatcher::host_fleet() const { return host_->fleet; }

scheduling::FlowStatus Dispatcher::status(FunctionId function, Instant now) const {
  if (!knows(function)) return {};
  const DevicePool& device_pool = device_pool_of(function);
  return device_pool.policy->status(view_of(device_pool), function, now);
}

bool Dispatcher::drained() const {
  return draining_ && in_flight() == 0 && gpu_->fleet.all().empty() && host_->fleet.all().empty();
}

std::optional<Explanation> Dispatcher::explain(InvocationId id, Instant now) const {
  const auto slot = queues_.find(id);
  if (!slot) return std::nullopt;
  const PendingInvocation& invocation = queues_[*slot];
  Explanation explanation{.state = invocation.state,
                          .function = invocation.function,
                          .waited = invocation.dispatched - invocation.submitted,
                          .reason = invocation.wait_reason,
                          .host_reason = invocation.host_reason,
                          .expected_with_gpu = invocation.expected_with_gpu,
                          .expected_with_host = invocation.expected_with_host};
  if (invocation.state != InvocationState::kQueued) {
    if (waits_for_moves(invocation)) explanation.reason = scheduling::WaitReason::kMemoryMoving;
    if (waits_for_token(invocation)) {
      // Its sandbox is there, and it waits again.
      explanation.state = InvocationState::kQueued;
      explanation.reason = scheduling::WaitReason::kNoToken;
      explanation.waited =
          now - invocation.submitted - invocation.sandbox_time - invocation.init_time;
    }
    return explanation;
  }
  explanation.waited = now - invocation.submitted;
  if (draining_) {
    explanation.reason = scheduling::WaitReason::kDraining;
  } else if (queues_.front(invocation.function) == *slot) {
    explanation.reason = why_waiting(invocation.function);
  }
  return explanation;
}

std::vector<TokenHolder> Dispatcher::token_holders(Instant now) const {
  const scheduling::Fleet& fleet = gpu_->fleet;
  std::vector<TokenHolder> holders;
  for (const scheduling::SandboxSlot slot : fleet.all()) {
    const scheduling::Sandbox& sandbox = fleet.sandbox(slot);
    if (sandbox.holds != scheduling::Sandbox::Holds::kToken) continue;
    TokenHolder holder{.device = fleet.devices()[sandbox.device].options.id,
                       .function = sandbox.function,
                       .held = now - sandbox.since};
    if (sandbox.has_invocation) {
      const PendingInvocation& invocation = queues_[sandbox.invocation];
      holder.invocation = invocation.id;
      holder.state = invocation.state;
      holder.held = now - invocation.dispatched;
      holder.most_left = most_left(slot, now);
    }
    holders.push_back(holder);
  }
  std::sort(holders.begin(), holders.end(), [](const TokenHolder& one, const TokenHolder& other) {
    return std::tuple(one.device, other.held, one.function) <
           std::tuple(other.device, one.held, other.function);
  });
  return holders;
}

// What is not begun yet has its whole timeout before it, after the rest of its start or of the way
// of its memory, each of which has a limit of its own.
std::optional<Duration> Dispatcher::most_left(scheduling::SandboxSlot slot, Instant now) const {
  const scheduling::Sandbox& sandbox = gpu_->fleet.sandbox(slot);
  const PendingInvocation& invocation = queues_[sandbox.invocation];
  const Duration timeout = flows_[invocation.function.value].timeout;
  if (timeout.count() <= 0) return std::nullopt;
  if (invocation.state == InvocationState::kRunning && !invocation.awaits_memory) {
    const Instant deadline = queues_.deadline_of(sandbox.invocation);
    return deadline != kNever ? std::optional(deadline - now) : std::nullopt;
  }
  Duration before = invocation.awaits_memory ? options_.move_timeout : Duration(0);
  if (const Instant ready = gpu_->deadlines.of(slot); ready != kNever) before += ready - now;
  return before + timeout;
}

// Whether its sandbox is ready, and may not run yet.
bool Dispatcher::waits_for_token(const PendingInvocation& invocation) const {
  if (invocation.state != InvocationState::kStarting) return false;
  const std::vector<scheduling::SandboxSlot>& ready = (invocation.on_host ? *host_ : *gpu_).ready;
  return std::find(ready.begin(), ready.end(), invocation.sandbox) != ready.end();
}

// Whether it was dispatched and waits for its memory, or for that of others to leave it room.
bool Dispatcher::waits_for_moves(const PendingInvocation& invocation) const {
  if (invocation.state == InvocationState::kRunning) return invocation.awaits_memory;
  if (invocation.on_host || !gpu_->fleet.moves_idle()) return false;
  const scheduling::Sandbox& sandbox = gpu_->fleet.sandbox(invocation.sandbox);
  const scheduling::Device& device = gpu_->fleet.devices()[sandbox.device];
  return sandbox.state == scheduling::SandboxState::kPlanned &&
         device.resident + sandbox.memory > device.capacity();
}

bool Dispatcher::knows(FunctionId function) const {
  return function.value < flows_.size() && flows_[function.value].registered;
}

Dispatcher::DevicePool& Dispatcher::device_pool_of(FunctionId function) {
  return flows_[function.value].device_memory.count > 0 ? *gpu_ : *host_;
}
const Dispatcher::DevicePool& Dispatcher::device_pool_of(FunctionId function) const {
  return flows_[function.value].device_memory.count > 0 ? *gpu_ : *host_;
}

scheduling::View Dispatcher::view_of(const DevicePool& device_pool) const {
  return {flows_, device_pool.fleet};
}

}  // namespace lambent::dispatch
