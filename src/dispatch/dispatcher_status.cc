// The part of Dispatcher that answers questions and changes nothing.
#include "dispatch/dispatcher.h"
#include "dispatch/lane.h"

namespace lambent::dispatch {

const scheduling::Policy& Dispatcher::policy() const { return *gpu_->policy; }
const scheduling::Fleet& Dispatcher::fleet() const { return gpu_->fleet; }
const scheduling::Fleet& Dispatcher::host_fleet() const { return host_->fleet; }

scheduling::FlowStanding Dispatcher::standing(FunctionId function, Instant now) const {
  if (!knows(function)) return {};
  const Lane& lane = lane_of(function);
  return lane.policy->standing(view_of(lane), function, now);
}

bool Dispatcher::drained() const {
  return draining_ && in_flight() == 0 && gpu_->fleet.all().empty() && host_->fleet.all().empty();
}

std::optional<Explanation> Dispatcher::explain(InvocationId id, Instant now) const {
  const auto slot = invocations_.find(id);
  if (!slot) return std::nullopt;
  const PendingInvocation& invocation = invocations_[*slot];
  Explanation explanation{.state = invocation.state,
                          .function = invocation.function,
                          .waited = invocation.dispatched - invocation.submitted,
                          .reason = invocation.wait_reason};
  if (invocation.state != InvocationState::kQueued) return explanation;
  explanation.waited = now - invocation.submitted;
  if (draining_) {
    explanation.reason = scheduling::WaitReason::kDraining;
  } else if (invocations_.front(invocation.function) == *slot) {
    const Lane& lane = lane_of(invocation.function);
    explanation.reason = lane.policy->why_waiting(view_of(lane), invocation.function);
  }
  return explanation;
}

bool Dispatcher::knows(FunctionId function) const {
  return function.value < flows_.size() && flows_[function.value].registered;
}

Dispatcher::Lane& Dispatcher::lane_of(FunctionId function) {
  return flows_[function.value].device_memory.count > 0 ? *gpu_ : *host_;
}
const Dispatcher::Lane& Dispatcher::lane_of(FunctionId function) const {
  return flows_[function.value].device_memory.count > 0 ? *gpu_ : *host_;
}

scheduling::View Dispatcher::view_of(const Lane& lane) const { return {flows_, lane.fleet}; }

}  // namespace lambent::dispatch
