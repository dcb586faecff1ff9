#include "node/worker/object_waits.h"

#include <algorithm>

#include "core/domain/limits.h"
#include "node/worker/limits.h"

namespace lambent::worker {

ObjectWaits::ObjectWaits(loop::EventLoop& loop, objects::ObjectStore& store, Events events)
    : loop_(loop), store_(store), events_(std::move(events)) {}

ObjectWaits::~ObjectWaits() {
  for (const auto& [invocation, waiting] : invocations_) {
    for (const objects::WaitId wait : waiting.waits) store_.cancel(wait);
  }
}

Result<void> ObjectWaits::begin(InvocationId invocation, TenantId tenant,
                                const std::vector<ObjectId>& needs) {
  if (needs.size() > limits::kNeeds) {
    return Error{ErrorCode::kInvalidArgument,
                 "an invocation needs at most " + std::to_string(limits::kNeeds) + " objects"};
  }
  // What needs nothing, or only objects that exist, does not wait.
  const bool waits = std::ranges::any_of(needs, [&](ObjectId object) {
    const auto status = store_.status(tenant, object);
    return status.ok() && status->state == objects::ObjectState::kExpected;
  });
  if (waits && waiting_count_ >= limits::kInvocationsWaiting) {
    return Error{ErrorCode::kResourceExhausted,
                 "too many invocations wait for objects already; try again later"};
  }
  Waiting waiting;
  waiting.tenant = tenant;
  for (const ObjectId object : needs) {
    if (std::ranges::find(waiting.held, object) != waiting.held.end()) continue;
    if (const auto held = store_.hold(tenant, object); !held.ok()) {
      for (const ObjectId each : waiting.held) store_.release(tenant, each);
      return held.error().with_context("needs " + to_string(object));
    }
    waiting.held.push_back(object);
  }
  const std::vector<ObjectId> held = waiting.held;
  waiting.missing = held.size();
  invocations_[invocation] = std::move(waiting);
  ++waiting_count_;
  if (held.empty()) return settle(invocation, std::nullopt), Result<void>();
  const Instant deadline = loop_.now() + limits::kNeedsTimeout;
  for (const ObjectId object : held) {
    const objects::WaitId wait = store_.await(
        tenant, object, deadline,
        [this, invocation, object](Result<TensorType> type) { there(invocation, object, type); });
    // It may have ended meanwhile: with the first of its objects that failed.
    const auto found = invocations_.find(invocation);
    if (found == invocations_.end()) return store_.cancel(wait), Result<void>();
    if (wait != 0) found->second.waits.push_back(wait);
  }
  return {};
}

bool ObjectWaits::waiting(InvocationId invocation) const {
  const auto found = invocations_.find(invocation);
  return found != invocations_.end() && !found->second.settled;
}

void ObjectWaits::end(InvocationId invocation) {
  const auto found = invocations_.find(invocation);
  if (found == invocations_.end()) return;
  const Waiting waiting = std::move(found->second);
  invocations_.erase(found);
  if (!waiting.settled) --waiting_count_;
  for (const objects::WaitId wait : waiting.waits) store_.cancel(wait);
  for (const ObjectId object : waiting.held) store_.release(waiting.tenant, object);
}

void ObjectWaits::fail_all(const Error& error) {
  std::vector<InvocationId> all;
  for (const auto& [invocation, waiting] : invocations_) {
    if (!waiting.settled) all.push_back(invocation);
  }
  for (const InvocationId invocation : all) settle(invocation, error);
}

void ObjectWaits::there(InvocationId invocation, ObjectId object, const Result<TensorType>& type) {
  const auto found = invocations_.find(invocation);
  if (found == invocations_.end() || found->second.settled) return;
  if (!type.ok()) {
    return settle(invocation, type.error().with_context("needs " + to_string(object)));
  }
  if (--found->second.missing == 0) settle(invocation, std::nullopt);
}

void ObjectWaits::settle(InvocationId invocation, std::optional<Error> error) {
  const auto found = invocations_.find(invocation);
  if (found == invocations_.end() || found->second.settled) return;
  found->second.settled = true;
  --waiting_count_;
  settled_.emplace_back(invocation, std::move(error));
  if (settling_) return;
  settling_ = true;
  while (!settled_.empty()) {
    auto [next, failure] = std::move(settled_.front());
    settled_.pop_front();
    if (!invocations_.contains(next)) continue;
    if (failure) {
      events_.failed(next, std::move(*failure));
    } else {
      events_.ready(next);
    }
  }
  settling_ = false;
}

}  // namespace lambent::worker
