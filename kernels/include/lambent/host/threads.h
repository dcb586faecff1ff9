// The threads of the block that this thread of the host runs, what they wait for, and who goes on
// next. Pure bookkeeping, shared by the two ways of leaving a thread in the middle (coroutines.h,
// fibers.h); everything here belongs to the one host thread that runs the block.
#pragma once

#include <time.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "gpu/cuda_abi/emulated_kernel.h"
#include "lambent/host/index.h"

namespace lambent::host {

constexpr unsigned kMostThreads = 1024;
constexpr unsigned kWarp = 32;

// A CUDA thread that has been started and waits or can go on.
struct Thread {
  Thread* next = nullptr;  // in the one list that it is in
  Index index;
  unsigned number = 0;   // in the block
  uint64_t value = 0;    // what it brought to a warp operation, then what it takes away
  unsigned operand = 0;  // the lane it wants the value of
  unsigned present = 0;  // the lanes that took part
  unsigned line = 0;     // of a call of __activemask, or of an access in lockstep

  unsigned lane() const { return number % kWarp; }
};

struct ThreadList {
  Thread* first = nullptr;
  Thread* last = nullptr;

  bool empty() const { return first == nullptr; }
  void push(Thread* thread) {
    thread->next = nullptr;
    (first == nullptr ? first : last->next) = thread;
    last = thread;
  }
  Thread* pop() {
    Thread* thread = first;
    if (thread != nullptr) first = thread->next;
    return thread;
  }
};

// Threads that can go on, first come first served, and threads that wait for the block. Arrays, so
// that the next thread is found without going through the last one.
struct ThreadQueue {
  Thread* items[kMostThreads] = {};
  unsigned head = 0;  // these count on beyond the size
  unsigned tail = 0;

  bool empty() const { return head == tail; }
  unsigned size() const { return tail - head; }
  void push(Thread* thread) { items[tail++ % kMostThreads] = thread; }
  Thread* pop() { return items[head++ % kMostThreads]; }
  void clear() { head = tail = 0; }
};

// Counts of the predicates of __syncthreads_count, _and and _or.
struct Votes {
  int yes = 0;
  int all = 0;
};

// Lanes of a warp that called an operation with the same mask wait here for the rest of it.
enum class WarpOperation : uint8_t {
  kNone,
  kSynchronize,
  kShuffle,
  kBallot,
  kMatch,
  kAdd,
  kMinimum,
  kMaximum,
  kSignedMinimum,
  kSignedMaximum,
  kAnd,
  kOr,
  kXor,
};

struct Meeting {
  Meeting* next = nullptr;
  unsigned mask = 0;
  unsigned arrived = 0;
  WarpOperation operation = WarpOperation::kNone;
  ThreadList waiting;
};

struct Warp {
  unsigned gone = 0;        // lanes that have returned or never were
  unsigned together = ~0u;  // the access of those that are furthest behind, of Block::together
  Meeting* meetings = nullptr;

  void waits_at(unsigned line) {
    if (line < together) together = line;
  }
};

// What a thread asks for when it leaves.
enum class Request : uint8_t {
  kBlockBarrier,
  kGridBarrier,
  kWarpOperation,
  kActiveMask,
  kTogether,
  kYield
};

struct Block {
  const emulated_launch* launch = nullptr;
  Index next;                 // the first thread that has not been started
  unsigned unfinished = 0;    // started or not
  Thread* current = nullptr;  // who runs, if it has left before
  ThreadQueue* runnable = nullptr;

  // The block's barrier; nobody can open the next before all have read the votes of this one.
  ThreadQueue* waiting = nullptr;
  unsigned arrived_for_grid = 0;  // of these
  int yes = 0;                    // of the votes of these
  Votes votes;

  ThreadList asking;        // for __activemask
  ThreadList together;      // those that wait for their warp to come to an access in lockstep
  unsigned idle_turns = 0;  // yields since anybody did anything else
  Warp warps[kMostThreads / kWarp];
  Meeting* spare_meetings = nullptr;
  unsigned used_meetings = 0;
  Meeting meetings[kMostThreads];
  ThreadQueue queues[2];  // `runnable` and `waiting` take turns

  // Of each thread's last launch of a kernel that failed (nested.h).
  bool has_launch_errors = false;
  uint16_t launch_errors[kMostThreads] = {};

  // The request of the thread that is leaving.
  Request request = Request::kBlockBarrier;
  bool vote = false;
  WarpOperation operation = WarpOperation::kNone;
  unsigned mask = 0;
  unsigned operand = 0;
  unsigned sleep_ns = 0;
  uint64_t value = 0;
  unsigned line = 0;
};

static constinit thread_local Block block;

inline unsigned linear(const Index& index) {
  return (index.z * blockDim.y + index.y) * blockDim.x + index.x;
}

inline void note_launch_error(Block& state, int error) {
  state.launch_errors[linear(threadIdx)] = static_cast<uint16_t>(error);
  state.has_launch_errors = true;
}

__attribute__((noinline, cold)) inline void forget_launch_errors(Block& state) {
  for (uint16_t& each : state.launch_errors) each = 0;
  state.has_launch_errors = false;
}

inline void print_place(const char* what) {
  fprintf(stderr, "kernel: block (%u,%u,%u), thread (%u,%u,%u): %s\n", unsigned{blockIdx.x},
          unsigned{blockIdx.y}, unsigned{blockIdx.z}, unsigned{threadIdx.x}, unsigned{threadIdx.y},
          unsigned{threadIdx.z}, what);
}

[[noreturn]] inline void report_misuse(const char* what) {
  print_place(what);
  abort();
}

[[noreturn]] inline void report_deadlock(const Block& state) {
  fprintf(stderr,
          "kernel: block (%u,%u,%u) can never go on: %u of its %u unfinished threads wait at "
          "__syncthreads, the others at warp operations\n",
          unsigned{blockIdx.x}, unsigned{blockIdx.y}, unsigned{blockIdx.z}, state.waiting->size(),
          state.unfinished);
  abort();
}

// Sets up a block of which the threads before `first` have finished.
inline void begin_threads(Block& state, unsigned first) {
  const unsigned total = blockDim.x * blockDim.y * blockDim.z;
  state.unfinished = total - first;
  state.arrived_for_grid = 0;
  state.yes = 0;
  state.runnable = &state.queues[0];
  state.waiting = &state.queues[1];
  state.runnable->clear();
  state.waiting->clear();
  state.asking = ThreadList{};
  state.together = ThreadList{};
  state.spare_meetings = nullptr;
  state.used_meetings = 0;
  state.idle_turns = 0;
  for (unsigned warp = 0; warp * kWarp < total; ++warp) {
    const unsigned begin = warp * kWarp;
    const unsigned lanes = total - begin < kWarp ? total - begin : kWarp;
    const unsigned finished = first <= begin ? 0 : first - begin < kWarp ? first - begin : kWarp;
    const unsigned there = lanes == kWarp ? ~0u : (1u << lanes) - 1;
    const unsigned done = finished == kWarp ? ~0u : (1u << finished) - 1;
    state.warps[warp].gone = ~there | done;
    state.warps[warp].together = ~0u;
    state.warps[warp].meetings = nullptr;
  }
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

inline void open_block_barrier(Block& state) {
  if (state.arrived_for_grid != 0) {
    if (state.arrived_for_grid != state.waiting->size()) {
      report_misuse("some threads of the block wait for the grid and some for the block");
    }
    state.launch->wait_for_grid(state.launch->grid_barrier);
  }
  state.votes = {state.yes, static_cast<int>(state.waiting->size())};
  state.yes = 0;
  state.arrived_for_grid = 0;
  // All that have not finished waited, so nobody can run.
  ThreadQueue* const opened = state.waiting;
  state.waiting = state.runnable;
  state.runnable = opened;
  state.waiting->clear();
}

inline void complete_meeting(Meeting& meeting);

// Takes the meeting out of its warp and lets its lanes go on if nobody is missing any more.
inline bool try_to_complete(Block& state, Warp& warp, Meeting** place) {
  Meeting& meeting = **place;
  if (meeting.arrived != (meeting.mask & ~warp.gone)) return false;
  *place = meeting.next;
  complete_meeting(meeting);
  while (Thread* thread = meeting.waiting.pop()) state.runnable->push(thread);
  meeting.next = state.spare_meetings;
  state.spare_meetings = &meeting;
  return true;
}

inline Meeting** meeting_of(Block& state, Warp& warp, unsigned mask) {
  Meeting** place = &warp.meetings;
  while (*place != nullptr && (*place)->mask != mask) place = &(*place)->next;
  if (*place == nullptr) {
    Meeting* meeting = state.spare_meetings;
    if (meeting != nullptr) {
      state.spare_meetings = meeting->next;
    } else {
      meeting = &state.meetings[state.used_meetings++];  // at most one for each waiting thread
    }
    *meeting = Meeting{nullptr, mask, 0, state.operation, {}};
    *place = meeting;
  }
  return place;
}

inline void arrive_at_warp(Block& state, Thread* thread) {
  Warp& warp = state.warps[thread->number / kWarp];
  const unsigned bit = 1u << thread->lane();
  if ((state.mask & bit) == 0) {
    report_misuse("a warp operation with a mask that does not name its own lane");
  }
  Meeting** place = meeting_of(state, warp, state.mask);
  Meeting& meeting = **place;
  if (meeting.operation != state.operation) {
    report_misuse("lanes named in one mask call different warp operations");
  }
  thread->value = state.value;
  thread->operand = state.operand;
  meeting.arrived |= bit;
  meeting.waiting.push(thread);
  try_to_complete(state, warp, place);
}

inline void answer_active_masks(Block& state);
inline void go_on_together(Block& state);

inline void arrive_at_block(Block& state, Thread* thread, bool vote) {
  if (vote) ++state.yes;
  state.waiting->push(thread);
}

// The thread has left with state.request: puts it where it waits, and opens what it completes.
inline void handle_request(Block& state, Thread* thread) {
  switch (state.request) {
    case Request::kGridBarrier:
      ++state.arrived_for_grid;
      [[fallthrough]];
    case Request::kBlockBarrier:
      arrive_at_block(state, thread, state.vote);
      if (state.waiting->size() == state.unfinished) open_block_barrier(state);
      break;
    case Request::kWarpOperation:
      arrive_at_warp(state, thread);
      break;
    case Request::kActiveMask:
      thread->line = state.line;
      state.asking.push(thread);
      break;
    case Request::kTogether:
      thread->line = state.line;
      state.warps[thread->number / kWarp].waits_at(state.line);
      state.together.push(thread);
      break;
    case Request::kYield:
      state.runnable->push(thread);
      if (++state.idle_turns > state.unfinished) {
        // Everybody who can run is waiting for time to pass or for another block.
        state.idle_turns = 0;
        go_on_together(state);
        answer_active_masks(state);
        const timespec duration{0, state.sleep_ns};
        nanosleep(&duration, nullptr);
      }
      return;
  }
  state.idle_turns = 0;
}

// A thread of the block has returned: nobody waits for it any more.
inline void finish_thread(Block& state, unsigned number) {
  --state.unfinished;
  state.idle_turns = 0;
  if (!state.waiting->empty() && state.waiting->size() == state.unfinished)
    open_block_barrier(state);
  Warp& warp = state.warps[number / kWarp];
  warp.gone |= 1u << (number % kWarp);
  for (Meeting** place = &warp.meetings; *place != nullptr;) {
    if (!try_to_complete(state, warp, place)) place = &(*place)->next;
  }
}

// Nobody else can go on: lanes of a warp that stand at the same call of __activemask are together.
// One call of each warp at a time: lanes of a warp seldom stand at more than one or two.
inline void answer_active_masks(Block& state) {
  constexpr unsigned kWarps = kMostThreads / kWarp;
  Thread* const first = state.asking.first;
  for (Thread* thread = first; thread != nullptr; thread = thread->next) thread->value = 0;
  for (bool all = false; !all;) {
    all = true;
    unsigned lines[kWarps] = {};
    unsigned masks[kWarps] = {};  // of those at that line; never none where a lane asks
    for (Thread* thread = first; thread != nullptr; thread = thread->next) {
      if (thread->value != 0) continue;
      const unsigned warp = thread->number / kWarp;
      if (masks[warp] == 0) lines[warp] = thread->line;
      if (thread->line == lines[warp]) masks[warp] |= 1u << thread->lane();
    }
    for (Thread* thread = first; thread != nullptr; thread = thread->next) {
      if (thread->value != 0) continue;
      const unsigned warp = thread->number / kWarp;
      if (thread->line == lines[warp]) {
        thread->value = masks[warp];
      } else {
        all = false;
      }
    }
  }
  while (Thread* thread = state.asking.pop()) state.runnable->push(thread);
}

// Nobody else can go on: of each warp those go on that are furthest behind, all at the same access,
// so that lanes which took different ways meet again behind them.
inline void go_on_together(Block& state) {
  constexpr unsigned kWarps = kMostThreads / kWarp;
  unsigned first[kWarps];
  for (unsigned warp = 0; warp < kWarps; ++warp) {
    first[warp] = state.warps[warp].together;
    state.warps[warp].together = ~0u;
  }
  ThreadList waiting = state.together;
  state.together = ThreadList{};
  while (Thread* thread = waiting.pop()) {
    const unsigned warp = thread->number / kWarp;
    if (thread->line == first[warp]) {
      state.runnable->push(thread);
    } else {
      state.warps[warp].waits_at(thread->line);
      state.together.push(thread);
    }
  }
}

// Who goes on, of the threads that have been started; null: start another, if there is one, or the
// block has ended or is stuck.
inline Thread* next_runnable(Block& state) {
  if (state.runnable->empty() && !has_unstarted_thread(state)) {
    if (!state.together.empty()) {
      go_on_together(state);
    } else if (!state.asking.empty()) {
      answer_active_masks(state);
    }
  }
  return state.runnable->empty() ? nullptr : state.runnable->pop();
}

}  // namespace lambent::host
