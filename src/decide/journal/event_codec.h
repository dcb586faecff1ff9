// The events of the journal as bytes: a batch of them is the payload of one block. Pure; encoded by
// writers of segments, decoded by replays.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "decide/dispatch/event.h"
#include "decide/journal/event_batch.h"

namespace lambent::journal {

// A batch begins with the number of its first event (8 bytes), the instant that its first time
// counts from (8 bytes) and how many events it holds (4 bytes), all least byte first. Each event
// is: a byte with its kind (low four bits) and its flags (of the kinds from 15 on, both tell the
// kind), the time since the one before as a varint of nanoseconds, what it carries, and the low 32
// bits of the log hash after it and its actions.
//
// What is not kept: messages of errors, which may quote what a function said. They decide nothing.
constexpr size_t kBatchHeadSize = 20;
constexpr size_t kLongestErrorType = 128;

class BatchWriter {
 public:
  BatchWriter();

  bool empty() const { return count_ == 0; }
  // Bytes so far.
  size_t size() const { return size_; }
  // The event that has this number; `now` is not before the one before.
  void add(uint64_t number, const dispatch::Event& event, Instant now, uint64_t log_hash);
  // All of a batch; the writer is empty.
  void add(const EventBatch& batch);
  // The batch, ready to be a block's payload; the writer is then empty, and the bytes stand until
  // the next event.
  std::string_view finish();
  // The same to keep.
  std::string take() { return std::string(finish()); }

 private:
  template <typename Kind>
  void put(uint64_t number, const Kind& event, Instant now, uint32_t digest);
  void grow();

  std::string bytes_;  // size_ of them are in use
  size_t size_ = kBatchHeadSize;
  uint32_t count_ = 0;
  uint64_t first_ = 0;
  Instant base_{};
  Instant last_{};
};

// The events of a batch as a block's payload.
std::string encoded(const EventBatch& batch);

class BatchReader {
 public:
  explicit BatchReader(std::string_view payload) : bytes_(payload) {}

  // INVALID_ARGUMENT if the payload is too short for its head.
  Result<void> open();
  bool done() const { return left_ == 0; }
  // The next event; not when done(). INVALID_ARGUMENT says what is wrong with it.
  Result<void> next(RecordedEvent& event);
  // Bytes that no event claims; zero when done with a sound batch.
  size_t rest() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
  uint64_t number_ = 0;
  uint32_t left_ = 0;
  Instant now_{};
};

}  // namespace lambent::journal
