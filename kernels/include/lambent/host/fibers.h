// Leaving a kernel in the middle by giving every waiting thread a stack of its own: works with any
// compiler. A block's threads run one after the other on one stack until one must wait: its stack
// is parked and a fresh one goes on with the next thread. A kernel that never waits never comes
// here. Used by barriers.h and registration.h.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <memory>
#include <vector>

#include "lambent/host/stack_switch.h"
#include "lambent/host/threads.h"

namespace lambent::host {

constexpr size_t kStackBytes = 64 * 1024;
constexpr size_t kGuardBytes = 4096;
// Linux lets a process have some 65,000 regions of memory, and a guard makes two of a stack. The
// threads of a grid that waits need more stacks than that: beyond so many, several share a guard.
constexpr unsigned kMostGuardedStacks = 8192;
constexpr unsigned kStacksOfAGuard = 64;

// A stack, and the CUDA thread that waits on it.
struct Fiber : Thread {
  SavedStack saved;
  char* memory = nullptr;  // the stack lies a guard's bytes behind
};

struct Fibers {
  bool used = false;                // whether a thread of this block had to wait
  void (*run_threads)() = nullptr;  // runs threads that have not been started until there are none
  Fiber* current = nullptr;
  ThreadList spare;
  Fiber first;  // the stack that run_block was called on
};

static constinit thread_local Fibers fibers;

// The stacks of this thread, given back when it ends. Not in Fibers: that must stay without a
// destructor, so that reaching it costs no check.
struct OwnedFibers {
  struct Region {
    char* memory;
    unsigned stacks;
    size_t bytes() const { return stacks * kStackBytes + kGuardBytes; }
  };
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Region> regions;

  ~OwnedFibers() {
    for (const Region& region : regions) {
      munmap(region.memory, region.bytes());
      if (region.stacks == 1) guarded_stacks.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  static inline std::atomic<unsigned> guarded_stacks{0};  // of all threads
};

inline OwnedFibers& owned_fibers() {
  static thread_local OwnedFibers owned;
  return owned;
}

// After a launch that was left by a jump: its stacks can be used again.
__attribute__((noinline, cold)) static void reclaim_fibers() {
  fibers.spare = ThreadList{};
  for (auto& fiber : owned_fibers().fibers) fibers.spare.push(fiber.get());
}

inline void new_fibers() {
  OwnedFibers& owned = owned_fibers();
  auto& guarded = OwnedFibers::guarded_stacks;
  const bool alone = guarded.fetch_add(1, std::memory_order_relaxed) < kMostGuardedStacks;
  if (!alone) guarded.fetch_sub(1, std::memory_order_relaxed);
  OwnedFibers::Region region{nullptr, alone ? 1 : kStacksOfAGuard};
  void* memory = mmap(nullptr, region.bytes(), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kGuardBytes, PROT_NONE) != 0) {
    report_misuse("no memory for the stack of a thread");
  }
  region.memory = static_cast<char*>(memory);
  owned.regions.push_back(region);
  for (unsigned i = 0; i < region.stacks; ++i) {
    auto fiber = std::make_unique<Fiber>();
    fiber->memory = region.memory + i * kStackBytes;
    fibers.spare.push(fiber.get());
    owned.fibers.push_back(std::move(fiber));
  }
}

static void enter_fiber();

// Leaves the current stack for whoever can go on; returns when it is continued.
__attribute__((noinline)) static void switch_away(Block& state) {
  Fibers& stacks = fibers;
  Fiber* const self = stacks.current;
  // Who only waits for others lets them begin.
  const bool starts = state.request == Request::kYield && has_unstarted_thread(state);
  auto* to = starts ? nullptr : static_cast<Fiber*>(next_runnable(state));
  if (to == nullptr && has_unstarted_thread(state)) {
    if (stacks.spare.empty()) new_fibers();
    to = static_cast<Fiber*>(stacks.spare.pop());
    // Stacks that start at different offsets do not fight for the same cache lines.
    const size_t colour = (linear(state.next) % 31) * 128;
    to->saved.prepare(to->memory + kGuardBytes, kStackBytes - colour, enter_fiber);
  }
  if (to == nullptr && state.unfinished == 0) to = &stacks.first;
  if (to == nullptr) report_deadlock(state);
  if (to == self) return;
  stacks.current = to;
  switch_stack(self->saved, to->saved);
}

// Where a fresh stack begins.
static void enter_fiber() {
  fibers.run_threads();
  fibers.spare.push(fibers.current);
  switch_away(block);
  __builtin_unreachable();
}

// Runs the threads that remain after the one that had to wait first, on all stacks.
inline void finish_block() {
  fibers.run_threads();
  while (block.unfinished != 0) switch_away(block);
  fibers.used = false;
}

// Stops the current thread with the request in `block` and returns when it has been answered.
__attribute__((noinline)) static void leave_thread() {
  Block& state = block;
  if (!fibers.used) {
    fibers.used = true;
    fibers.current = &fibers.first;
    begin_threads(state, linear(threadIdx));
  }
  Fiber* const self = fibers.current;
  state.current = self;
  self->index = threadIdx;
  self->number = linear(threadIdx);
  handle_request(state, self);
  switch_away(state);
  state.current = self;
  threadIdx = self->index;
}

inline void wait_for_block(bool vote) {
  block.request = Request::kBlockBarrier;
  block.vote = vote;
  leave_thread();
}

}  // namespace lambent::host
