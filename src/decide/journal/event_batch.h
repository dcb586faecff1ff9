// EventBatch: events as the thread that decides leaves them, one line of its cache each, for
// another thread to encode. Filled on the loop thread; then a value that one thread holds at a
// time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/check.h"
#include "core/domain/limits.h"
#include "decide/dispatch/event.h"
#include "decide/journal/event_kind.h"

namespace lambent::journal {

struct RecordedEvent {
  uint64_t number = 0;  // counts from 1 since the worker's start
  Instant now{};
  uint32_t digest = 0;  // low bits of the log hash
  dispatch::Event event;
};

// The kind in the lowest byte, flags above it, the digest in the upper half; the instant; what the
// event carries.
using PackedEvent = std::array<uint64_t, 8>;

inline bool flag_of(const PackedEvent& words, unsigned which) {
  return (words[0] >> (8 + which) & 1) != 0;
}
// What EventBatch::add does to the frequent two, the other way round.
inline void unpack(const PackedEvent& words, dispatch::InvocationSubmitted& e) {
  e.asynchronous = flag_of(words, 0);
  e.acknowledged = flag_of(words, 1);
  e.within_run = flag_of(words, 2);
  e.invocation = {words[2], words[3]};
  e.function = FunctionId(static_cast<uint32_t>(words[4]));
}
inline void unpack(const PackedEvent& words, dispatch::InvocationFinished& e) {
  e.succeeded = flag_of(words, 0);
  e.invocation = {words[2], words[3]};
  e.execution = Duration(static_cast<int64_t>(words[4]));
  e.device_memory = Bytes(words[5]);
}

// What an event says, as the words that it is made of: whoever decides writes a line of them as a
// whole, and nothing of it depends on what they are.
class EventBatch {
 public:
  EventBatch() = default;
  EventBatch(EventBatch&&) = default;
  EventBatch& operator=(EventBatch&&) = default;

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == kCapacity; }
  size_t size() const { return count_; }
  // What it takes in memory.
  size_t bytes() const { return room_ * sizeof(Line) + others_.size() * sizeof(dispatch::Event); }

  // The event that has this number; of all but the first in a batch it is the one before's and one.
  // Not when full(). Here, for it follows every decision.
  void add(uint64_t number, const dispatch::Event& event, Instant now, uint64_t log_hash) {
    CHECK(!full(), "whoever fills a batch hands it over when it is full");
    if (count_ == 0) begin(number);
    Line& line = lines_[count_++];
    const uint64_t head = event.index() | log_hash << 32;
    const auto at = static_cast<uint64_t>(now.time_since_epoch().count());
    if (const auto* e = std::get_if<dispatch::InvocationFinished>(&event)) {
      const auto& [invocation, execution, succeeded, device_memory] = *e;
      line.words = {head | uint64_t{succeeded} << 8,
                    at,
                    invocation.high,
                    invocation.low,
                    static_cast<uint64_t>(execution.count()),
                    device_memory.count};
    } else if (const auto* e = std::get_if<dispatch::InvocationSubmitted>(&event)) {
      const auto& [invocation, function, asynchronous, acknowledged, within_run] = *e;
      line.words = {head | uint64_t{asynchronous} << 8 | uint64_t{acknowledged} << 9 |
                        uint64_t{within_run} << 10,
                    at, invocation.high, invocation.low, function.value};
    } else {
      add_seldom(line, event, head, now);
    }
  }
  void clear();
  // All that was added, in at most about twice the memory that it needs; nothing is left here.
  EventBatch take();

  // As it was added.
  RecordedEvent operator[](size_t index) const;
  // All of them in their order: `visit(now, digest, event)` with each as the kind that it is. The
  // frequent two are never made into events of any kind.
  template <typename Visit>
  void for_each(Visit visit) const;
  // The number of the first.
  uint64_t first() const { return first_; }

 private:
  struct alignas(64) Line {
    PackedEvent words;
  };

  void begin(uint64_t number);
  void add_seldom(Line& line, const dispatch::Event& event, uint64_t head, Instant now);

  static constexpr size_t kCapacity = limits::kJournalBlock.count / sizeof(Line);

  std::unique_ptr<Line[]> lines_;  // made for the first event
  size_t room_ = 0;                // of these there are so many
  // Events that carry text or many numbers: seldom, and kept as they are.
  std::vector<dispatch::Event> others_;
  size_t count_ = 0;
  uint64_t first_ = 0;
};

template <typename Visit>
void EventBatch::for_each(Visit visit) const {
  const auto visit_as = [&]<typename Kind>(const PackedEvent& words, Kind event) {
    unpack(words, event);
    visit(Instant(Duration(static_cast<int64_t>(words[1]))), static_cast<uint32_t>(words[0] >> 32),
          event);
  };
  for (size_t i = 0; i < count_; ++i) {
    const PackedEvent& words = lines_[i].words;
    const size_t kind = words[0] & 0xff;
    if (kind == kind_of<dispatch::InvocationFinished>()) {
      visit_as(words, dispatch::InvocationFinished{});
    } else if (kind == kind_of<dispatch::InvocationSubmitted>()) {
      visit_as(words, dispatch::InvocationSubmitted{});
    } else {
      const RecordedEvent seldom = (*this)[i];
      std::visit([&](const auto& event) { visit(seldom.now, seldom.digest, event); }, seldom.event);
    }
  }
}

}  // namespace lambent::journal
