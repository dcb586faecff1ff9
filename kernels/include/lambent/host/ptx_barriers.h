// Barriers of PTX that lie in memory (mbarrier), in which threads arrive and copies count the bytes
// that have come, and the copies in bulk that do so. Copies are made at once. Used by ptx_module.h.
#pragma once

#include "lambent/host/clock.h"
#include "lambent/host/ptx.h"

namespace lambent::host::ptx {

// Its 64 bits are its own affair; what arriving gives back is such a word, as it was before. A
// phase ends when no arrival and no byte of it is outstanding.
struct MemoryBarrier {
  uint64_t expected : 20;  // arrivals of the next phase
  uint64_t pending : 20;
  int64_t bytes : 21;  // that copies still owe; copies may come before they are expected
  uint64_t phase : 3;
};
static_assert(sizeof(MemoryBarrier) == 8);

inline MemoryBarrier& barrier_at(uint64_t at) { return *reinterpret_cast<MemoryBarrier*>(at); }
inline MemoryBarrier barrier_of(uint64_t state) {
  MemoryBarrier barrier;
  __builtin_memcpy(&barrier, &state, sizeof barrier);
  return barrier;
}

inline void mbarrier_init(uint64_t at, uint32_t arrivals) {
  barrier_at(at) = {.expected = arrivals, .pending = arrivals, .bytes = 0, .phase = 0};
}
inline void mbarrier_inval(uint64_t) {}

inline void end_phase_if_complete(MemoryBarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  barrier.pending = barrier.expected;
  ++barrier.phase;
  block.idle_turns = 0;  // those that waited can go on
}
inline void mbarrier_expect_tx(uint64_t at, uint32_t bytes) {
  MemoryBarrier& barrier = barrier_at(at);
  barrier.bytes += static_cast<int32_t>(bytes);
}
inline void mbarrier_complete_tx(uint64_t at, uint32_t bytes) {
  MemoryBarrier& barrier = barrier_at(at);
  barrier.bytes -= static_cast<int32_t>(bytes);
  end_phase_if_complete(barrier);
}
inline uint64_t mbarrier_arrive(uint64_t at, uint32_t arrivals = 1) {
  MemoryBarrier& barrier = barrier_at(at);
  uint64_t before;
  __builtin_memcpy(&before, &barrier, sizeof before);
  if (arrivals > barrier.pending) {
    report_misuse("more threads arrive at an mbarrier than it expects");
  }
  barrier.pending -= arrivals;
  end_phase_if_complete(barrier);
  return before;
}
inline uint64_t mbarrier_arrive_expect_tx(uint64_t at, uint32_t bytes) {
  mbarrier_expect_tx(at, bytes);
  return mbarrier_arrive(at);
}
inline uint64_t mbarrier_arrive_drop(uint64_t at, uint32_t arrivals = 1) {
  MemoryBarrier& barrier = barrier_at(at);
  if (arrivals > barrier.expected) {
    report_misuse("more threads leave an mbarrier than it expects");
  }
  barrier.expected -= arrivals;
  return mbarrier_arrive(at, arrivals);
}
inline uint64_t mbarrier_arrive_drop_expect_tx(uint64_t at, uint32_t bytes) {
  mbarrier_expect_tx(at, bytes);
  return mbarrier_arrive_drop(at);
}
inline uint64_t mbarrier_pending_count(uint64_t state) { return barrier_of(state).pending; }

// Whether the phase has ended. A program asks again until it has, so the others of the block go on
// before the answer is no.
template <typename HasEnded>
LAMBENT_INLINE bool ended_soon(HasEnded has_ended) {
  if (has_ended()) return true;
  __nanosleep(0);
  return has_ended();
}
LAMBENT_INLINE bool mbarrier_test_wait(uint64_t at, uint64_t state) {
  const unsigned phase = barrier_of(state).phase;
  return ended_soon([=] { return barrier_at(at).phase != phase; });
}
LAMBENT_INLINE bool mbarrier_test_wait_parity(uint64_t at, uint32_t parity) {
  return ended_soon([=] { return (barrier_at(at).phase & 1) != (parity & 1); });
}
// With how long it may take, in nanoseconds.
LAMBENT_INLINE bool mbarrier_try_wait(uint64_t at, uint64_t state, uint32_t = 0) {
  return mbarrier_test_wait(at, state);
}
LAMBENT_INLINE bool mbarrier_try_wait_parity(uint64_t at, uint32_t parity, uint32_t = 0) {
  return mbarrier_test_wait_parity(at, parity);
}

inline void copy_in_bulk(uint64_t to, uint64_t from, uint32_t bytes) {
  __builtin_memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
}
inline void copy_in_bulk_for(uint64_t to, uint64_t from, uint32_t bytes, uint64_t barrier) {
  copy_in_bulk(to, from, bytes);
  mbarrier_complete_tx(barrier, bytes);
}

}  // namespace lambent::host::ptx
