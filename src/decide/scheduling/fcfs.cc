#include "decide/scheduling/fcfs.h"

#include "decide/scheduling/first_that_fits.h"

namespace lambent::scheduling {

void FcfsPolicy::flow_changed(const View& view, FunctionId function, Instant) {
  const Flow& flow = view.flow(function);
  if (flow.pending > 0 && flow.in_flight < flow.max_concurrency) {
    by_arrival_.put(function.value, flow.oldest);
  } else {
    by_arrival_.erase(function.value);
  }
}

void FcfsPolicy::enqueued(const View& view, FunctionId function, Instant now) {
  flow_changed(view, function, now);
}
void FcfsPolicy::dispatched(const View& view, FunctionId function, Instant now) {
  flow_changed(view, function, now);
}
void FcfsPolicy::finished(const View& view, FunctionId function, Instant now) {
  flow_changed(view, function, now);
}

Decision FcfsPolicy::decide(const View& view, Instant) {
  if (by_arrival_.empty()) return Decision::nothing(WaitReason::kConcurrencyLimit);
  WaitReason reason = WaitReason::kNone;
  auto left = DevicesLeft::kAll;
  const auto decision = first_that_fits(view, by_arrival_, left, reason);
  return decision ? *decision : Decision::nothing(reason);
}

void FcfsPolicy::look_ahead(const View&, size_t most, std::vector<FunctionId>& out) {
  take_first(by_arrival_, most, out);
}

WaitReason FcfsPolicy::why_waiting(const View& view, FunctionId function) const {
  const Flow& flow = view.flow(function);
  if (flow.in_flight >= flow.max_concurrency) return WaitReason::kConcurrencyLimit;
  const PlaceOrReason found = view.fleet.places().find(function, flow, false);
  return found.place ? WaitReason::kBehindOthers : found.reason;
}

void FcfsPolicy::archive(StateArchive& archive) { by_arrival_.archive(archive); }

FlowStatus FcfsPolicy::status(const View& view, FunctionId function, Instant) const {
  return {view.flow(function).has_work() ? FlowState::kActive : FlowState::kInactive, {}};
}

}  // namespace lambent::scheduling
