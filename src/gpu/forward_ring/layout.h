// The memory that a sandboxed process and the executor share, as it lies in its sealed memfd: a
// ring of calls one way, slots of answers the other, and chunks for large data both ways. Plain
// numbers only; used by forward_client (any thread) and forward_server (the process's thread).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lambent::forward_ring {

constexpr uint32_t kForwardVersion = 4;

constexpr size_t kRingBytes = size_t{256} << 10;  // a power of two
// No call is longer, with what comes inline.
constexpr size_t kMostCallBytes = size_t{40} << 10;
// So many threads of a process may wait for an answer at once; more wait for their turn.
constexpr uint32_t kAnswerSlots = 64;
constexpr uint32_t kAnswerValues = 20;
constexpr uint32_t kChunks = 8;
constexpr size_t kChunkBytes = size_t{512} << 10;

// A thread that is going to sleep sets it, looks once more for what it waits for, and sleeps while
// it is set; the one that brings that clears it, and wakes if it was set. See waiting.h.
using SleepFlag = std::atomic<uint32_t>;

struct Control {
  // Of the client.
  alignas(64) std::atomic<uint64_t> submitted;  // bytes of calls, ever
  SleepFlag client_waits_for_room;

  // Of the server.
  alignas(64) std::atomic<uint64_t> consumed;  // bytes of calls, ever
  // A CUresult other than 0 once the context is broken: what every call returns from then on.
  std::atomic<uint32_t> broken;
  std::atomic<uint32_t> may_spin;  // there are cores enough to wait without sleeping

  alignas(64) SleepFlag server_sleeps;
};

// The n-th call that names a slot is answered when `answered` is n.
struct alignas(64) AnswerSlot {
  std::atomic<uint32_t> answered;
  SleepFlag client_sleeps;
  int32_t result;
  uint32_t reserved;
  uint64_t values[kAnswerValues];
};

// The n-th call that names a chunk has done with it when `done` is n.
struct alignas(64) ChunkState {
  std::atomic<uint32_t> done;
  SleepFlag client_sleeps;
  std::atomic<int32_t> result;
};

struct SharedPages {
  alignas(4096) Control control;
  alignas(4096) AnswerSlot slots[kAnswerSlots];
  ChunkState chunks[kChunks];
  alignas(4096) char ring[kRingBytes];
  alignas(4096) char chunk_bytes[kChunks][kChunkBytes];
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert((kRingBytes & (kRingBytes - 1)) == 0);
static_assert(kMostCallBytes * 2 <= kRingBytes);
static_assert(sizeof(AnswerSlot) == 192);

}  // namespace lambent::forward_ring
