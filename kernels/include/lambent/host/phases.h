// PhaseBarrier: a barrier for some threads of a block, in its shared memory: threads arrive, and
// may do something else before they wait. What cuda::barrier, cuda::pipeline and tiles of more than
// a warp are made of; all threads of a block run on one host thread.
#pragma once

#include "lambent/host/clock.h"

namespace lambent::host {

// Shared memory keeps what an earlier block left in it, so a thread calls begin() before it is used.
struct PhaseBarrier {
  int expected = 0;
  int arrived = 0;
  unsigned phase = 0;  // counts those that have ended

  constexpr void begin(int threads) {
    expected = threads;
    arrived = 0;
    phase = 0;
  }
  // The phase that it arrived in.
  unsigned arrive(int threads = 1) {
    const unsigned of = phase;
    arrived += threads;
    if (arrived > expected) report_misuse("more threads arrive at a barrier than it expects");
    if (arrived == expected) {
      arrived = 0;
      ++phase;
      block.idle_turns = 0;  // those that waited can go on
    }
    return of;
  }
  bool has_ended(unsigned of) const { return static_cast<int>(phase - of) > 0; }
  LAMBENT_INLINE void wait(unsigned of) const {
    while (!has_ended(of)) __nanosleep(0);
  }
};

}  // namespace lambent::host
