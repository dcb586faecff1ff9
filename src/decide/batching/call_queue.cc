#include "decide/batching/call_queue.h"

#include <algorithm>
#include <utility>

namespace lambent::batching {

bool CallQueue::add(const QueuedCall& call) {
  const bool has_room =
      waiting_.size() < limits_.waiting && payload_ + call.payload <= limits_.waiting_payload;
  // What runs at once does not wait.
  if (!has_room && !is_idle()) return false;
  // It may have waited elsewhere before.
  const auto later = std::ranges::upper_bound(waiting_, call.since, {}, &QueuedCall::since);
  waiting_.insert(later, call);
  payload_ += call.payload;
  return true;
}

bool CallQueue::remove(InvocationId id) {
  const auto found = std::ranges::find(waiting_, id, &QueuedCall::id);
  if (found == waiting_.end()) return false;
  payload_ -= found->payload;
  waiting_.erase(found);
  return true;
}

std::vector<size_t> CallQueue::candidates() const {
  std::vector<size_t> places = {0};
  if (waiting_.front().elements == 0) return places;
  Bytes payload = waiting_.front().payload;
  for (size_t i = 1; i < waiting_.size(); ++i) {
    // Those beyond the largest batch are there so that the policy sees that it is full.
    if (places.size() > limits_.batch.most_elements || places.size() >= limits_.calls) break;
    if (waiting_[i].elements == 0) continue;
    payload += waiting_[i].payload;
    if (payload > limits_.payload) break;
    places.push_back(i);
  }
  return places;
}

bool CallQueue::is_full(const std::vector<size_t>& places) const {
  if (places.size() >= limits_.calls) return true;
  Bytes payload;
  for (const size_t place : places) payload += waiting_[place].payload;
  return payload >= limits_.payload;
}

CallQueue::Next CallQueue::next(Instant now) {
  Next next;
  if (is_running() || waiting_.empty()) return next;
  std::vector<size_t> places = candidates();
  if (waiting_.front().elements > 0) {
    std::vector<Waiting> seen;
    for (const size_t place : places) {
      seen.push_back({waiting_[place].since, waiting_[place].elements});
    }
    const BatchDecision decision = policy_.decide(seen, now);
    // What cannot join them is no reason to leave the function idle.
    const bool others_wait = places.size() < waiting_.size();
    if (decision.requests == 0 && !others_wait && !is_full(places)) {
      next.again = decision.again;
      return next;
    }
    if (decision.requests > 0) places.resize(decision.requests);
  }
  running_ = 0;
  runs_by_itself_ = waiting_[places.front()].elements == 0;
  for (const size_t place : places) {
    running_ += std::max<uint64_t>(waiting_[place].elements, 1);
    payload_ -= waiting_[place].payload;
    next.calls.push_back(waiting_[place].id);
  }
  for (auto place = places.rbegin(); place != places.rend(); ++place) {
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(*place));
  }
  began_ = now;
  return next;
}

void CallQueue::ended(Instant now, bool was_one_run) {
  const uint64_t elements = std::exchange(running_, 0);
  if (was_one_run && !runs_by_itself_) policy_.ran(elements, now - began_);
}

}  // namespace lambent::batching
