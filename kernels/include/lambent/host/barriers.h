// __syncthreads and its relatives: the block's barrier. Used by kernels.
#pragma once

#include "lambent/host/meetings.h"
#include "lambent/host/threads.h"
#ifdef LAMBENT_KERNEL_COROUTINES
#include "lambent/host/coroutines.h"
#else
#include "lambent/host/fibers.h"
#endif

// What contains a stop must be inlined into the kernel.
#define LAMBENT_INLINE inline __attribute__((always_inline))

namespace lambent::host {

LAMBENT_INLINE Votes synchronize_block(bool vote) {
  wait_for_block(vote);
  return block.votes;
}

// Every block of a cooperative launch.
LAMBENT_INLINE void synchronize_grid() {
  if (block.launch->wait_for_grid == nullptr) {
    report_misuse("the grid can be synchronised in a cooperative launch only");
  }
  block.request = Request::kGridBarrier;
  block.vote = false;
  leave_thread();
}

}  // namespace lambent::host

static LAMBENT_INLINE void __syncthreads() { lambent::host::synchronize_block(false); }
static LAMBENT_INLINE int __syncthreads_count(int predicate) {
  return lambent::host::synchronize_block(predicate != 0).yes;
}
static LAMBENT_INLINE int __syncthreads_and(int predicate) {
  const auto votes = lambent::host::synchronize_block(predicate != 0);
  return votes.yes == votes.all;
}
static LAMBENT_INLINE int __syncthreads_or(int predicate) {
  return lambent::host::synchronize_block(predicate != 0).yes != 0;
}
