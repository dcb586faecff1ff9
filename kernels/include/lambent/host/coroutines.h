// Leaving a kernel in the middle by compiling it as a coroutine (clang): what it needs later lies
// in a small frame, so that going from thread to thread costs a few nanoseconds. Used by barriers.h
// and registration.h.
//
// The kernel is inlined into a coroutine (Entry::thread) and with it every call of leave_thread,
// which becomes a point where the coroutine stops. An ordinary coroutine would now return to its
// caller, but code that is inlined cannot return for its surroundings. So it drops the stack down
// to where enter_thread was called: the compiler has put everything that lives on into the frame,
// and nothing on the stack has a destructor. A call of leave_thread that is not inlined into a
// kernel (in a recursive function, say) does not compile; lambent-bundle then uses fibers.h.
#pragma once

#include <sys/mman.h>

#include <coroutine>
#include <new>

#include "lambent/host/threads.h"

namespace lambent::host {

constexpr size_t kArenaBytes = 128 * 1024 * 1024;  // of addresses; touched as far as it is needed

static constinit thread_local char* arena = nullptr;
static constinit thread_local char* thread_stack = nullptr;  // its top
static constinit thread_local bool frames_used = false;      // in this block

// The stack on which threads run, as long as each runs, is aligned to its size, and what stands at
// its low end is found from the stack pointer: that is cheaper than finding thread-local variables.
constexpr size_t kStackBytes = 1024 * 1024;
constexpr size_t kPageBytes = 4096;

// What is resumed in order to start a thread: where a frame would begin, the function stands.
struct Starter {
  Thread thread;
  alignas(16) void (*start)(void*);
};

struct StackFoot {
  Block* block;
  Index* thread_index;
  bool frames_used;  // in this block
  unsigned number;   // of the thread that was started last
  unsigned started;
  Starter starter;
};

inline StackFoot* stack_foot() {
  char* address;
  asm("movq %%rsp, %0\n\tandq %1, %0" : "=&r"(address) : "i"(-static_cast<long>(kStackBytes)));
  return reinterpret_cast<StackFoot*>(address);
}

// Gives the memory back when the host thread ends.
struct OwnedMemory {
  void* memory = nullptr;
  size_t bytes = 0;

  char* reserve(size_t wanted) {
    bytes = wanted;
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) report_misuse("no memory for the frames of threads");
    return static_cast<char*>(memory);
  }
  ~OwnedMemory() {
    if (memory != nullptr) munmap(memory, bytes);
  }
};

__attribute__((noinline)) static void reserve_memory() {
  static thread_local OwnedMemory frames, stack;
  arena = frames.reserve(kArenaBytes);
  const auto place = reinterpret_cast<uintptr_t>(stack.reserve(2 * kStackBytes));
  const uintptr_t low = (place + kStackBytes - 1) / kStackBytes * kStackBytes;
  new (reinterpret_cast<void*>(low)) StackFoot{&block, &threadIdx, false, 0, 0, {}};
  if (mprotect(reinterpret_cast<void*>(low + kPageBytes), kPageBytes, PROT_NONE) != 0) {
    report_misuse("no guard for the stack of threads");
  }
  thread_stack = reinterpret_cast<char*>(low + kStackBytes);
}

// A Thread and, behind it, the frame of a thread that is being started: `bytes`, a constant.
inline void* place_frame(size_t bytes) {
  constexpr size_t kHeader = (sizeof(Thread) + 15) / 16 * 16;
  size_t stride = kHeader + (bytes + 15) / 16 * 16;
  // Threads must not all begin in the same set of the cache.
  if (stride % 512 == 0) stride += 64;
  if (stride > kArenaBytes / kMostThreads) report_misuse("too many bytes of variables in a thread");
  Block& state = block;
  StackFoot* const foot = stack_foot();
  const unsigned number = foot->number;
  auto* thread = reinterpret_cast<Thread*>(arena + number * stride);
  thread->index = threadIdx;
  thread->number = number;
  state.current = thread;
  foot->frames_used = true;
  return reinterpret_cast<char*>(thread) + kHeader;
}

inline void* frame_of(Thread* thread) {
  return reinterpret_cast<char*>(thread) + (sizeof(Thread) + 15) / 16 * 16;
}

static_assert(offsetof(Starter, start) == (sizeof(Thread) + 15) / 16 * 16);

struct Task {
  struct promise_type {
    Task get_return_object() {
      // The scheduler knows the frame, even though no code that the compiler sees does.
      asm volatile("" ::"r"(std::coroutine_handle<promise_type>::from_promise(*this).address())
                   : "memory");
      return {};
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept {}
    static void* operator new(size_t bytes) { return place_frame(bytes); }
    static void operator delete(void*) {}
  };
};

// Calls function(argument) on the stack that ends at `top`; back when nobody can go on.
__attribute__((naked, noinline)) static void enter_thread(void (*)(void*), void*, char* /*top*/) {
  asm volatile(
      "pushq %rbp\n\t"
      "pushq %rbx\n\t"
      "pushq %r12\n\t"
      "pushq %r13\n\t"
      "pushq %r14\n\t"
      "pushq %r15\n\t"
      "movq %rsp, -16(%rdx)\n\t"
      "leaq -16(%rdx), %rsp\n\t"
      "movq %rdi, %rax\n\t"
      "movq %rsi, %rdi\n\t"
      "call *%rax\n\t"
      "movq (%rsp), %rsp\n\t"
      "popq %r15\n\t"
      "popq %r14\n\t"
      "popq %r13\n\t"
      "popq %r12\n\t"
      "popq %rbx\n\t"
      "popq %rbp\n\t"
      "ret");
}

// Goes on with `thread`, or, if it is null, goes back to enter_thread's caller. Both drop the stack
// to where that called a kernel and leave by a jump, which the processor foresees better than a
// return to somewhere else. What the compiler keeps over the stop lies in frames, and the registers
// of enter_thread's caller on its own stack.
#define LAMBENT_GO_ON_WITH(foot, thread)                                                   \
  if (Thread* const going_on = (thread); going_on != nullptr) {                            \
    asm volatile("leaq %c2(%0), %%rsp\n\tjmpq *(%1)" ::"r"(foot), "D"(frame_of(going_on)), \
                 "i"(kStackBytes - 24)                                                     \
                 : "memory");                                                              \
  } else {                                                                                 \
    asm volatile(                                                                          \
        "movq %c1(%0), %%rsp\n\t"                                                          \
        "popq %%r15\n\tpopq %%r14\n\tpopq %%r13\n\tpopq %%r12\n\t"                         \
        "popq %%rbx\n\tpopq %%rbp\n\tpopq %%rcx\n\tjmpq *%%rcx" ::"r"(foot),               \
        "i"(kStackBytes - 16)                                                              \
        : "memory");                                                                       \
  }                                                                                        \
  __builtin_unreachable()

// Who goes on, made the current thread: one that can run, or the next to be started; null if there
// is neither.
inline Thread* next_thread(StackFoot& foot) {
  Block& state = *foot.block;
  // Who only waits for others lets them begin.
  const bool may_start = state.runnable->empty() || state.request == Request::kYield;
  if (may_start && start_next_thread(state)) {
    foot.number = foot.started++;
    return &foot.starter.thread;
  }
  Thread* const thread = next_runnable(state);
  if (thread != nullptr) {
    state.current = thread;
    threadIdx = thread->index;
  }
  return thread;
}

__attribute__((noinline)) static Thread* settle_request(StackFoot& foot) {
  handle_request(*foot.block, foot.block->current);
  return next_thread(foot);
}

__attribute__((noinline)) static Thread* settle_block_barrier(StackFoot& foot) {
  Block& state = *foot.block;
  if (state.waiting->size() == state.unfinished) open_block_barrier(state);
  return next_thread(foot);
}

__attribute__((noinline)) static Thread* settle_end(StackFoot& foot) {
  Block& state = *foot.block;
  // A kernel that never waits has no frames.
  finish_thread(state, foot.frames_used ? state.current->number : foot.number);
  return next_thread(foot);
}

// The last that a thread does: goes on with another, or returns if there is none.
__attribute__((always_inline)) inline void end_thread() {
  StackFoot* const foot = stack_foot();
  Thread* const next = settle_end(*foot);
  if (next != nullptr) {
    LAMBENT_GO_ON_WITH(foot, next);
  }
}

// Stops the current thread with the request in `block` and returns when it has been answered.
// The clobbers keep the compiler from carrying variables of the block over the stop: it knows that
// the intrinsic itself does not write to them.
__attribute__((always_inline)) inline void leave_thread() {
  asm volatile("" ::: "memory");
  if (__builtin_coro_suspend(false) != 0) {
    StackFoot* const foot = stack_foot();
    LAMBENT_GO_ON_WITH(foot, settle_request(*foot));
  }
  asm volatile("" ::: "memory");
}

// The same for the block's barrier, which kernels meet most: while others can run, the next of
// them does without a call.
__attribute__((always_inline)) inline void wait_for_block(bool vote) {
  asm volatile("" ::: "memory");
  if (__builtin_coro_suspend(false) != 0) {
    StackFoot* const foot = stack_foot();
    Block& state = *foot->block;
    arrive_at_block(state, state.current, vote);
    Thread* next;
    if (!state.runnable->empty()) {
      next = state.runnable->pop();
      state.current = next;
      *foot->thread_index = next->index;
    } else {
      next = settle_block_barrier(*foot);
    }
    LAMBENT_GO_ON_WITH(foot, next);
  }
  asm volatile("" ::: "memory");
}

// Runs all threads of a block to their ends; start(nullptr) starts threadIdx. Whether any of them
// had a frame.
inline bool run_threads(void (*start)(void*)) {
  if (arena == nullptr) reserve_memory();
  StackFoot& foot = *reinterpret_cast<StackFoot*>(thread_stack - kStackBytes);
  foot.frames_used = false;
  foot.started = 0;
  foot.starter.start = start;
  Block& state = block;
  state.next = Index{};
  begin_threads(state, 0);
  while (state.unfinished != 0) {
    Thread* const thread = next_thread(foot);
    if (thread == nullptr) report_deadlock(state);
    void* const frame = frame_of(thread);
    enter_thread(*static_cast<void (**)(void*)>(frame), frame, thread_stack);
  }
  return foot.frames_used;
}

}  // namespace lambent::host
