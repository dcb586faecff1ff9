#include "node/worker/idempotency.h"

#include <functional>

#include "core/domain/connection_key.h"
#include "node/worker/limits.h"

namespace lambent::worker {

std::string idempotency_key(const InvocationRequest& request) {
  const std::string tenant = std::to_string(request.function.tenant.value);
  if (is_connection_key(request.idempotency_key)) {
    return request.idempotency_key + "/" + tenant + "/" + request.function.name;
  }
  return tenant + "/" + durable_key(request);
}

std::string durable_key(const InvocationRequest& request) {
  // The payload stands in by its length and two hashes of it: an accident would need both to
  // collide under one SDK id.
  const std::hash<std::string_view> hash;
  const std::string salted = request.payload + request.idempotency_key;
  return request.function.name + "/" + request.idempotency_key + "/" +
         std::to_string(request.payload.size()) + "/" + std::to_string(hash(request.payload)) +
         "/" + std::to_string(hash(salted));
}

std::optional<IdempotencyTable::Found> IdempotencyTable::find(const std::string& key, Instant now) {
  drop_expired(now);
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) return std::nullopt;
  if (entry->second.success) return Found{std::nullopt, &*entry->second.success};
  return Found{entry->second.invocation, nullptr};
}

void IdempotencyTable::start(const std::string& key, InvocationId invocation) {
  entries_[key] = Entry{invocation, std::nullopt, kNever, {}};
}

void IdempotencyTable::finish(const std::string& key, const InvocationResult& result, Instant now) {
  const bool comes_again =
      result.outcome != Outcome::kSucceeded && result.retry_after > Duration(0);
  if (is_connection_key(key)) {
    if (comes_again) by_connection_.add(key, now + result.retry_after);
    return;
  }
  const auto entry = entries_.find(key);
  if (entry == entries_.end() || entry->second.success) return;
  if (result.outcome != Outcome::kSucceeded) {
    entries_.erase(entry);
    if (comes_again) by_id_.add(key, now + result.retry_after);
    return;
  }
  entry->second.success = result;
  entry->second.expires = now + limits_.window;
  entry->second.order = finished_.insert(finished_.end(), key);
  bytes_ += Bytes(result.payload.size() + key.size());
  while (!finished_.empty() && (finished_.size() > limits_.entries || bytes_ > limits_.bytes)) {
    erase(entries_.find(finished_.front()));
  }
}

bool IdempotencyTable::take_promise(const std::string& key, Instant now) {
  if (!is_connection_key(key)) return by_id_.take(key, now);
  const bool taken = by_connection_.take(key, now);
  // One that does not wait as it was told is shared by several clients, or by a flood.
  if (!taken) by_connection_.forget(key);
  return taken;
}

void IdempotencyTable::Promises::add(const std::string& key, Instant due) {
  const auto [found, is_new] = promises_.try_emplace(key);
  found->second.due = due;
  if (!is_new) return;
  found->second.order = told_.insert(told_.end(), key);
  while (told_.size() > limits::kPromisedTurns) {
    promises_.erase(told_.front());
    told_.pop_front();
  }
}

bool IdempotencyTable::Promises::take(const std::string& key, Instant now) {
  const auto found = promises_.find(key);
  if (found == promises_.end() || now < found->second.due) return false;
  forget(key);
  return true;
}

void IdempotencyTable::Promises::forget(const std::string& key) {
  const auto found = promises_.find(key);
  if (found == promises_.end()) return;
  told_.erase(found->second.order);
  promises_.erase(found);
}

void IdempotencyTable::drop_expired(Instant now) {
  while (!finished_.empty()) {
    const auto oldest = entries_.find(finished_.front());
    if (oldest->second.expires > now) return;
    erase(oldest);
  }
}

void IdempotencyTable::erase(std::unordered_map<std::string, Entry>::iterator entry) {
  bytes_ -= Bytes(entry->second.success->payload.size() + entry->first.size());
  finished_.erase(entry->second.order);
  entries_.erase(entry);
}

}  // namespace lambent::worker
