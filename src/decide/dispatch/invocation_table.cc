#include "decide/dispatch/invocation_table.h"

#include "core/base/check.h"

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

size_t InvocationTable::home_of(InvocationId id) const {
  // Ids are random in production but not in tests: mix them.
  uint64_t hash = id.low ^ id.high * 0x9e3779b97f4a7c15ULL;
  hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93ULL;
  return static_cast<size_t>(hash ^ hash >> 32) & (buckets_.size() - 1);
}

std::optional<InvocationSlot> InvocationTable::find(InvocationId id) const {
  if (buckets_.empty()) return std::nullopt;
  for (size_t bucket = home_of(id);; bucket = (bucket + 1) & (buckets_.size() - 1)) {
    const InvocationSlot slot = buckets_[bucket];
    if (slot == kNoInvocation) return std::nullopt;
    if (slots_[slot].id == id) return slot;
  }
}

InvocationSlot InvocationTable::add(InvocationId id) {
  InvocationSlot slot = static_cast<InvocationSlot>(slots_.size());
  if (free_.empty()) {
    slots_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  slots_[slot] = PendingInvocation{.id = id};
  enter(slot);
  return slot;
}

void InvocationTable::enter(InvocationSlot slot) {
  if ((used_ + 1) * 2 > buckets_.size()) grow();
  size_t bucket = home_of(slots_[slot].id);
  while (buckets_[bucket] != kNoInvocation) bucket = (bucket + 1) & (buckets_.size() - 1);
  buckets_[bucket] = slot;
  ++used_;
}

void InvocationTable::remove(InvocationSlot slot) {
  const size_t mask = buckets_.size() - 1;
  size_t hole = bucket_of(slot);
  // Close the gap: an entry after it moves in unless that would put it before its home.
  for (size_t next = (hole + 1) & mask; buckets_[next] != kNoInvocation; next = (next + 1) & mask) {
    const size_t home = home_of(slots_[buckets_[next]].id);
    if (((next - home) & mask) >= ((next - hole) & mask)) {
      buckets_[hole] = buckets_[next];
      hole = next;
    }
  }
  buckets_[hole] = kNoInvocation;
  free_.push_back(slot);
  --used_;
}

size_t InvocationTable::bucket_of(InvocationSlot slot) const {
  size_t bucket = home_of(slots_[slot].id);
  while (buckets_[bucket] != slot) {
    CHECK(buckets_[bucket] != kNoInvocation, "the invocation is in the table");
    bucket = (bucket + 1) & (buckets_.size() - 1);
  }
  return bucket;
}

void InvocationTable::grow() {
  std::vector<InvocationSlot> old = std::move(buckets_);
  buckets_.assign(old.empty() ? 64 : old.size() * 2, kNoInvocation);
  for (const InvocationSlot slot : old) {
    if (slot == kNoInvocation) continue;
    size_t bucket = home_of(slots_[slot].id);
    while (buckets_[bucket] != kNoInvocation) bucket = (bucket + 1) & (buckets_.size() - 1);
    buckets_[bucket] = slot;
  }
}

InvocationSlot InvocationTable::front(FunctionId function) const {
  return function.value < queues_.size() ? queues_[function.value].front : kNoInvocation;
}

void InvocationTable::push_back(FunctionId function, InvocationSlot slot) {
  if (function.value >= queues_.size()) queues_.resize(function.value + 1);
  Queue& queue = queues_[function.value];
  slots_[slot].earlier = queue.back;
  slots_[slot].later = kNoInvocation;
  (queue.back == kNoInvocation ? queue.front : slots_[queue.back].later) = slot;
  queue.back = slot;
}

void InvocationTable::put_back(FunctionId function, InvocationSlot slot) {
  InvocationSlot later = front(function);
  while (later != kNoInvocation && slots_[later].arrival < slots_[slot].arrival) {
    later = slots_[later].later;
  }
  if (later == kNoInvocation) {
    push_back(function, slot);
    return;
  }
  const InvocationSlot earlier = slots_[later].earlier;
  slots_[slot].earlier = earlier;
  slots_[slot].later = later;
  slots_[later].earlier = slot;
  (earlier == kNoInvocation ? queues_[function.value].front : slots_[earlier].later) = slot;
}

void InvocationTable::unlink(InvocationSlot slot) {
  const PendingInvocation& invocation = slots_[slot];
  Queue& queue = queues_[invocation.function.value];
  (invocation.earlier == kNoInvocation ? queue.front : slots_[invocation.earlier].later) =
      invocation.later;
  (invocation.later == kNoInvocation ? queue.back : slots_[invocation.later].earlier) =
      invocation.earlier;
}

void InvocationTable::begin_waits_behind(InvocationSlot head, Instant now) {
  for (InvocationSlot slot = slots_[head].later; slot != kNoInvocation; slot = slots_[slot].later) {
    WaitRecord& wait = slots_[slot].wait;
    // Those behind it have waited there all the time. Where the last reason is told, it stays.
    if (!wait.tells_longest() || wait.waits_for(scheduling::WaitReason::kOwnQueue)) return;
    wait.begin(scheduling::WaitReason::kOwnQueue, now);
  }
}

}  // namespace lambent::dispatch
