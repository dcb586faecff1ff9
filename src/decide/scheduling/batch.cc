#include "decide/scheduling/batch.h"

#include <algorithm>

#include "decide/scheduling/first_that_fits.h"

namespace lambent::scheduling {

void BatchPolicy::flow_changed(const View& view, FunctionId function, Instant) {
  if (function.value >= batches_.size()) batches_.resize(function.value + 1);
  // Items may have been withdrawn from the queue.
  Batch& batch = batches_[function.value];
  batch.left = std::min(batch.left, view.flow(function).pending);
  index(view, function);
}

void BatchPolicy::enqueued(const View& view, FunctionId function, Instant) {
  index(view, function);
}

void BatchPolicy::dispatched(const View& view, FunctionId function, Instant) {
  Batch& batch = batches_[function.value];
  // The first item of a batch: the rest is what waits right now.
  if (batch.left == 0) {
    batch.number = ++started_;
    batch.left = view.flow(function).pending;
  } else {
    --batch.left;
  }
  index(view, function);
}

void BatchPolicy::finished(const View& view, FunctionId function, Instant) {
  index(view, function);
}

Decision BatchPolicy::decide(const View& view, Instant) {
  WaitReason reason = WaitReason::kConcurrencyLimit;
  auto left = DevicesLeft::kAll;
  if (const auto next = first_that_fits(view, continuing_, left, reason)) return *next;
  if (left == DevicesLeft::kNone) return Decision::nothing(reason);
  const auto first = first_that_fits(view, by_arrival_, left, reason);
  return first ? *first : Decision::nothing(reason);
}

void BatchPolicy::look_ahead(const View&, size_t most, std::vector<FunctionId>& out) {
  take_first(continuing_, most, out);
  take_first(by_arrival_, most - std::min(most, out.size()), out);
}

WaitReason BatchPolicy::why_waiting(const View& view, FunctionId function) const {
  const Flow& flow = view.flow(function);
  if (flow.in_flight > 0) return WaitReason::kConcurrencyLimit;
  const PlaceOrReason found = view.fleet.places().find(function, flow, false);
  return found.place ? WaitReason::kBehindOthers : found.reason;
}

FlowStatus BatchPolicy::status(const View& view, FunctionId function, Instant) const {
  return {view.flow(function).has_work() ? FlowState::kActive : FlowState::kInactive, {}};
}

void BatchPolicy::archive(StateArchive& archive) {
  archive.list(batches_, [&](Batch& batch) {
    archive.field(batch.number);
    archive.field(batch.left);
  });
  archive.field(started_);
  continuing_.archive(archive);
  by_arrival_.archive(archive);
}

void BatchPolicy::index(const View& view, FunctionId function) {
  const Flow& flow = view.flow(function);
  const Batch& batch = batches_[function.value];
  const bool may_run = flow.pending > 0 && flow.in_flight == 0 && flow.max_concurrency > 0;
  if (may_run && batch.left > 0) {
    continuing_.put(function.value, batch.number);
  } else {
    continuing_.erase(function.value);
  }
  if (may_run && batch.left == 0) {
    by_arrival_.put(function.value, flow.oldest);
  } else {
    by_arrival_.erase(function.value);
  }
}

}  // namespace lambent::scheduling
