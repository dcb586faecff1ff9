// __syncthreads and __syncwarp by lazy fibers. A block's threads run one after the other on one
// stack until one meets a barrier: its stack is parked and a fresh one goes on with the next
// thread. A kernel without barriers never comes here. Everything runs on the thread that runs the
// block.
#pragma once

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "lambent/host/index.h"
#include "lambent/host/stack_switch.h"

namespace lambent::host {

constexpr unsigned kMostThreads = 1024;
constexpr unsigned kWarp = 32;
constexpr size_t kStackBytes = 64 * 1024;
constexpr size_t kGuardBytes = 4096;

// A stack and the CUDA thread that runs on it.
struct Fiber {
  SavedStack saved;
  Index thread;
  Fiber* next = nullptr;  // in the one list that it is in
  char* memory = nullptr;
};

struct FiberList {
  Fiber* first = nullptr;
  Fiber* last = nullptr;

  void push(Fiber* fiber) {
    fiber->next = nullptr;
    (first == nullptr ? first : last->next) = fiber;
    last = fiber;
  }
  Fiber* pop() {
    Fiber* fiber = first;
    if (fiber != nullptr) first = fiber->next;
    return fiber;
  }
  void append(FiberList& other) {
    if (other.first == nullptr) return;
    (first == nullptr ? first : last->next) = other.first;
    last = other.last;
    other.first = nullptr;
  }
};

// Counts of the predicates of __syncthreads_count, _and and _or.
struct Votes {
  int yes = 0;
  int all = 0;
};

struct Barrier {
  FiberList waiting;
  unsigned arrived = 0;
  unsigned expected = 0;  // threads that have not finished, whether started or not
  Votes gathering;
  Votes result;  // of the round that opened last; nobody can open the next before all have read it
};

// What one block needs once one of its threads has met a barrier.
struct Block {
  Index next;                       // the first thread that has not been started
  bool fibers = false;              // whether a barrier was met
  void (*run_threads)() = nullptr;  // runs threads that have not been started until there are none
  Fiber* current = nullptr;
  FiberList runnable;
  FiberList spare;
  Fiber first;  // the stack that run_block was called on
  Barrier everyone;
  Barrier warps[kMostThreads / kWarp];
};

static constinit thread_local Block block;

// The stacks of this thread, given back when it ends. Not in Block: that must stay without a
// destructor, so that reaching it costs no check.
struct OwnedFibers {
  std::vector<std::unique_ptr<Fiber>> fibers;

  ~OwnedFibers() {
    for (auto& fiber : fibers) munmap(fiber->memory, kStackBytes + kGuardBytes);
  }
};

inline unsigned linear(const Index& index) {
  return (index.z * blockDim.y + index.y) * blockDim.x + index.x;
}

inline void new_fiber(Block& state) {
  static thread_local OwnedFibers owned;
  auto fiber = std::make_unique<Fiber>();
  void* memory = mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kGuardBytes, PROT_NONE) != 0) {
    fputs("kernel: no memory for the stack of a thread\n", stderr);
    abort();
  }
  fiber->memory = static_cast<char*>(memory);
  state.spare.push(fiber.get());
  owned.fibers.push_back(std::move(fiber));
}

// Takes the next thread that has not been started, if there is one, and makes it threadIdx.
inline bool start_next_thread(Block& state) {
  Index& next = state.next;
  if (next.x == blockDim.x) {
    next.x = 0;
    next.y = next.y + 1;
    if (next.y == blockDim.y) {
      next.y = 0;
      next.z = next.z + 1;
    }
  }
  if (next.z >= blockDim.z) {
    next.x = blockDim.x;  // stay at the end
    next.y = blockDim.y - 1;
    return false;
  }
  threadIdx = next;
  next.x = next.x + 1;
  return true;
}

inline bool has_unstarted_thread(const Block& state) {
  const Index& next = state.next;
  return next.z < blockDim.z &&
         !(next.x == blockDim.x && next.y + 1 == blockDim.y && next.z + 1 == blockDim.z);
}

[[noreturn]] inline void report_deadlock(const Block& state) {
  fprintf(stderr,
          "kernel: block (%u,%u,%u) can never go on: %u of its %u unfinished threads wait at "
          "__syncthreads, the others at __syncwarp\n",
          unsigned{blockIdx.x}, unsigned{blockIdx.y}, unsigned{blockIdx.z}, state.everyone.arrived,
          state.everyone.expected);
  abort();
}

static void enter_fiber();

// Leaves the current stack for whoever can go on; returns when it is continued.
__attribute__((noinline)) static void switch_away(Block& state) {
  Fiber* const self = state.current;
  Fiber* to = state.runnable.pop();
  if (to == nullptr && has_unstarted_thread(state)) {
    if (state.spare.first == nullptr) new_fiber(state);
    to = state.spare.pop();
    // Stacks that start at different offsets do not fight for the same cache lines.
    const size_t colour = (linear(state.next) % 31) * 128;
    to->saved.prepare(to->memory + kGuardBytes, kStackBytes - colour, enter_fiber);
  }
  if (to == nullptr && state.everyone.expected == 0) to = &state.first;
  if (to == nullptr) report_deadlock(state);
  if (to == self) return;
  state.current = to;
  switch_stack(self->saved, to->saved);
}

inline void open(Block& state, Barrier& barrier) {
  barrier.arrived = 0;
  barrier.result = barrier.gathering;
  barrier.gathering = Votes{};
  state.runnable.append(barrier.waiting);
}

inline void leave(Block& state, Barrier& barrier) {
  --barrier.expected;
  if (barrier.arrived != 0 && barrier.arrived == barrier.expected) open(state, barrier);
}

// A thread of a block with barriers has returned.
inline void finish_thread(Block& state, const Index& thread) {
  leave(state, state.everyone);
  leave(state, state.warps[linear(thread) / kWarp]);
}

// Where a fresh stack begins.
static void enter_fiber() {
  Block& state = block;
  state.run_threads();
  state.spare.push(state.current);
  switch_away(state);
  __builtin_unreachable();
}

// The first barrier of the block: the threads before this one have finished.
static void begin_fibers(Block& state) {
  const unsigned total = blockDim.x * blockDim.y * blockDim.z;
  const unsigned self = linear(threadIdx);
  state.fibers = true;
  state.current = &state.first;
  state.everyone.expected = total - self;
  for (unsigned warp = 0; warp * kWarp < total; ++warp) {
    const unsigned begin = warp * kWarp;
    const unsigned end = begin + kWarp < total ? begin + kWarp : total;
    const unsigned from = self > begin ? self : begin;
    state.warps[warp].expected = from < end ? end - from : 0;
  }
}

// Runs the threads that remain after the one that met the first barrier, on all stacks.
inline void finish_block(Block& state) {
  state.run_threads();
  while (state.everyone.expected != 0) switch_away(state);
  state.fibers = false;
}

inline Votes wait_at(Block& state, Barrier& barrier, bool vote) {
  barrier.gathering.yes += vote ? 1 : 0;
  barrier.gathering.all += 1;
  if (++barrier.arrived == barrier.expected) {
    open(state, barrier);
    return barrier.result;
  }
  Fiber* const self = state.current;
  self->thread = threadIdx;
  barrier.waiting.push(self);
  switch_away(state);
  threadIdx = self->thread;
  return barrier.result;
}

__attribute__((noinline)) static Votes synchronize_block(bool vote) {
  Block& state = block;
  if (!state.fibers) begin_fibers(state);
  return wait_at(state, state.everyone, vote);
}

__attribute__((noinline)) static void synchronize_warp() {
  Block& state = block;
  if (!state.fibers) begin_fibers(state);
  wait_at(state, state.warps[linear(threadIdx) / kWarp], false);
}

}  // namespace lambent::host

static inline void __syncthreads() { lambent::host::synchronize_block(false); }
static inline int __syncthreads_count(int predicate) {
  return lambent::host::synchronize_block(predicate != 0).yes;
}
static inline int __syncthreads_and(int predicate) {
  const auto votes = lambent::host::synchronize_block(predicate != 0);
  return votes.yes == votes.all;
}
static inline int __syncthreads_or(int predicate) {
  return lambent::host::synchronize_block(predicate != 0).yes != 0;
}
// A barrier of all unfinished lanes of the warp; a mask that names fewer is not looked at.
static inline void __syncwarp(unsigned = 0xffffffffu) { lambent::host::synchronize_warp(); }
