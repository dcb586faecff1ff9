// How an end of a channel waits for the other: as gpu/forward_ring/waiting.h does, until a
// deadline, and looking every 20 ms whether anybody is left to wait for. Any thread.
#pragma once

#include <time.h>

#include <cstdint>

#include "gpu/forward_ring/waiting.h"
#include "gpu/stage_channel/channel_file.h"

namespace lambent::stage_channel {

class Deadline {
 public:
  explicit Deadline(int64_t timeout_ms)
      : is_never_(timeout_ms < 0), at_ms_(now_ms() + (timeout_ms < 0 ? 0 : timeout_ms)) {}

  bool has_passed() const { return !is_never_ && now_ms() >= at_ms_; }

 private:
  static int64_t now_ms() {
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
  }

  bool is_never_;
  int64_t at_ms_;
};

constexpr int kLookMs = 20;

// kDone once `is_there()`; else why no longer: kEnded, kPeerGone, kTimedOut. Data that has come
// counts, even if the peer has gone since.
template <typename IsThere>
Status wait_for(const ChannelFile& file, SleepFlag& flag, forward_ring::SpinBudget& budget,
                const Deadline& deadline, IsThere is_there) {
  Status why = Status::kDone;
  const auto go_on = [&] {
    if (file.has_ended()) {
      why = Status::kEnded;
    } else if (file.peer_is_gone()) {
      why = Status::kPeerGone;
    } else if (deadline.has_passed()) {
      why = Status::kTimedOut;
    }
    return why == Status::kDone;
  };
  if (forward_ring::wait_until(flag, &budget, kLookMs, is_there, go_on)) return Status::kDone;
  return is_there() ? Status::kDone : why;
}

// How much of a value is copied at a time: several pieces of it, so that they overlap, and none so
// small that its own costs count.
constexpr uint64_t piece_bytes(uint64_t value_bytes) {
  constexpr uint64_t kLeast = uint64_t{512} << 10;
  const uint64_t eighth = rounded_up(value_bytes / 8 + 1, kLeast);
  return eighth > kBlockBytes ? kBlockBytes : eighth;
}
// From `offset` of a slot: no further than the piece and the block go.
constexpr uint64_t next_piece(uint64_t offset, uint64_t left, uint64_t piece) {
  const uint64_t to_block_end = kBlockBytes - offset % kBlockBytes;
  uint64_t bytes = left < piece ? left : piece;
  return bytes < to_block_end ? bytes : to_block_end;
}

}  // namespace lambent::stage_channel
