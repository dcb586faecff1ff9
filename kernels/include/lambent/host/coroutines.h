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

static constinit thread_local void* scheduler_stack = nullptr;
static constinit thread_local char* arena = nullptr;
static constinit thread_local bool frames_used = false;  // in this block

// Gives the memory back when the host thread ends.
struct OwnedArena {
  char* memory = nullptr;
  ~OwnedArena() {
    if (memory != nullptr) munmap(memory, kArenaBytes);
  }
};

__attribute__((noinline)) static void reserve_arena() {
  static thread_local OwnedArena owned;
  void* memory = mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) report_misuse("no memory for the frames of threads");
  owned.memory = arena = static_cast<char*>(memory);
}

// A Thread and, behind it, the frame of a thread that is being started: `bytes`, a constant.
inline void* place_frame(size_t bytes) {
  constexpr size_t kHeader = (sizeof(Thread) + 15) / 16 * 16;
  size_t stride = kHeader + (bytes + 15) / 16 * 16;
  // Threads must not all begin in the same set of the cache.
  if (stride % 512 == 0) stride += 64;
  if (stride > kArenaBytes / kMostThreads) report_misuse("too many bytes of variables in a thread");
  if (arena == nullptr) reserve_arena();
  Block& state = block;
  const unsigned number = linear(threadIdx);
  auto* thread = reinterpret_cast<Thread*>(arena + number * stride);
  thread->index = threadIdx;
  thread->number = number;
  state.current = thread;
  frames_used = true;
  return reinterpret_cast<char*>(thread) + kHeader;
}

inline void* frame_of(Thread* thread) {
  return reinterpret_cast<char*>(thread) + (sizeof(Thread) + 15) / 16 * 16;
}

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

// Calls function(argument); 0 when it has returned, 1 when leave_thread was called in it.
__attribute__((naked, noinline)) static int enter_thread(void (*)(void*), void*, void**) {
  asm volatile(
      "pushq %rbp\n\t"
      "pushq %rbx\n\t"
      "pushq %r12\n\t"
      "pushq %r13\n\t"
      "pushq %r14\n\t"
      "pushq %r15\n\t"
      "movq %rsp, (%rdx)\n\t"
      "movq %rdi, %rax\n\t"
      "movq %rsi, %rdi\n\t"
      "subq $8, %rsp\n\t"
      "call *%rax\n\t"
      "addq $8, %rsp\n\t"
      "xorl %eax, %eax\n\t"
      "popq %r15\n\t"
      "popq %r14\n\t"
      "popq %r13\n\t"
      "popq %r12\n\t"
      "popq %rbx\n\t"
      "popq %rbp\n\t"
      "ret");
}

// Goes back to enter_thread's caller. The jump instead of a return is what the processor foresees.
#define LAMBENT_DROP_STACK                                              \
  asm volatile(                                                         \
      "movq %0, %%rsp\n\t"                                              \
      "movl $1, %%eax\n\t"                                              \
      "popq %%r15\n\tpopq %%r14\n\tpopq %%r13\n\tpopq %%r12\n\t"        \
      "popq %%rbx\n\tpopq %%rbp\n\tpopq %%rcx\n\tjmp *%%rcx\n\t" ::"r"( \
          lambent::host::scheduler_stack)                               \
      : "memory");                                                      \
  __builtin_unreachable()

// Stops the current thread with the request in `block` and returns when it has been answered.
// The clobbers keep the compiler from carrying variables of the block over the stop: it knows that
// the intrinsic itself does not write to them.
__attribute__((always_inline)) inline void leave_thread() {
  asm volatile("" ::: "memory");
  switch (__builtin_coro_suspend(false)) {
    case 0:
      break;
    default:
      LAMBENT_DROP_STACK;
  }
  asm volatile("" ::: "memory");
}

// Runs all threads of a block to their ends; start(nullptr) starts threadIdx.
inline void run_threads(void (*start)(void*)) {
  Block& state = block;
  state.next = Index{};
  begin_threads(state, 0);
  frames_used = false;
  while (state.unfinished != 0) {
    bool left;
    if (Thread* thread = next_runnable(state)) {
      state.current = thread;
      threadIdx = thread->index;
      void* const frame = frame_of(thread);
      left = enter_thread(*static_cast<void (**)(void*)>(frame), frame, &scheduler_stack) != 0;
    } else if (start_next_thread(state)) {
      left = enter_thread(start, nullptr, &scheduler_stack) != 0;
    } else {
      report_deadlock(state);
    }
    if (left) {
      handle_request(state, state.current);
    } else {
      finish_thread(state, linear(threadIdx));
    }
  }
}

}  // namespace lambent::host
