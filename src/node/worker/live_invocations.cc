#include "node/worker/live_invocations.h"

#include <unordered_set>
#include <utility>

#include "core/base/check.h"

namespace lambent::worker {

LiveInvocation& LiveInvocations::add(InvocationRequest request, FunctionId function,
                                     std::string idempotency_key, LiveInvocation::Waiter waiter) {
  LiveInvocation& live = live_[request.id];
  live.request = std::move(request);
  live.function = function;
  live.idempotency_key = std::move(idempotency_key);
  if (waiter) live.waiters.push_back(std::move(waiter));
  live.payload = Bytes(live.request.payload.size());
  payloads_ += live.payload;
  counts(function).payloads += live.payload;
  ++counts(function).live;
  return live;
}

LiveInvocation* LiveInvocations::find(InvocationId id) {
  const auto found = live_.find(id);
  return found != live_.end() ? &found->second : nullptr;
}

const LiveInvocation* LiveInvocations::find(InvocationId id) const {
  const auto found = live_.find(id);
  return found != live_.end() ? &found->second : nullptr;
}

LiveInvocation& LiveInvocations::at(InvocationId id) {
  LiveInvocation* live = find(id);
  CHECK(live != nullptr, "the invocation has no result yet");
  return *live;
}

LiveInvocation LiveInvocations::take(InvocationId id) {
  const auto found = live_.find(id);
  CHECK(found != live_.end(), "every invocation ends once");
  LiveInvocation live = std::move(found->second);
  live_.erase(found);
  release_payload(live);
  --counts(live.function).live;
  return live;
}

std::vector<const LiveInvocation*> LiveInvocations::some(TenantId tenant, size_t most) const {
  std::vector<const LiveInvocation*> found;
  for (const auto& [id, live] : live_) {
    if (most-- == 0) break;
    if (live.request.function.tenant == tenant) found.push_back(&live);
  }
  return found;
}

void LiveInvocations::release_payload(LiveInvocation& live) {
  const Bytes payload = std::exchange(live.payload, {});
  payloads_ -= payload;
  counts(live.function).payloads -= payload;
}

void LiveInvocations::begin_arrival(FunctionId function, Bytes payload) {
  ++arriving_;
  ++counts(function).arriving;
  payloads_ += payload;
  counts(function).payloads += payload;
}

void LiveInvocations::end_arrival(FunctionId function, Bytes payload) {
  --arriving_;
  --counts(function).arriving;
  payloads_ -= payload;
  counts(function).payloads -= payload;
}

size_t LiveInvocations::arriving(FunctionId function) const {
  return function.value < counts_.size() ? counts_[function.value].arriving : 0;
}

size_t LiveInvocations::count(FunctionId function) const {
  return function.value < counts_.size() ? counts_[function.value].live : 0;
}

std::vector<FunctionId> LiveInvocations::functions() const {
  std::unordered_set<FunctionId> found;
  for (const auto& [id, live] : live_) found.insert(live.function);
  return {found.begin(), found.end()};
}

Bytes LiveInvocations::payloads(FunctionId function) const {
  return function.value < counts_.size() ? counts_[function.value].payloads : Bytes(0);
}

LiveInvocations::Counts& LiveInvocations::counts(FunctionId function) {
  if (counts_.size() <= function.value) counts_.resize(function.value + 1);
  return counts_[function.value];
}

}  // namespace lambent::worker
