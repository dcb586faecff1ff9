// Saves the running stack and continues another: some 10 instructions on x86-64, ucontext elsewhere
// (or with LAMBENT_KERNEL_UCONTEXT). Used by barriers.h, on the thread that runs a block.
#pragma once

#if !defined(__x86_64__) || defined(LAMBENT_KERNEL_UCONTEXT)
#define LAMBENT_STACK_SWITCH_UCONTEXT 1
#include <ucontext.h>
#endif

#include <cstddef>
#include <cstdint>

namespace lambent::host {

#ifdef LAMBENT_STACK_SWITCH_UCONTEXT

struct SavedStack {
  ucontext_t context{};

  // Prepares `bytes` of memory at `low` so that switching here calls entry(), which never returns.
  void prepare(char* low, size_t bytes, void (*entry)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = low;
    context.uc_stack.ss_size = bytes;
    context.uc_link = nullptr;
    makecontext(&context, entry, 0);
  }
};

inline void switch_stack(SavedStack& from, SavedStack& to) {
  swapcontext(&from.context, &to.context);
}

#else

struct SavedStack {
  void* pointer = nullptr;

  void prepare(char* low, size_t bytes, void (*entry)()) {
    auto* top = reinterpret_cast<uint64_t*>(low + bytes);
    *--top = 0;  // entry's return address: it has none
    *--top = reinterpret_cast<uint64_t>(entry);
    for (int i = 0; i < 6; ++i) *--top = 0;  // what switch_pointers pops
    pointer = top;
  }
};

// The registers that a call must preserve (System V); the floating-point modes never change.
__attribute__((naked, noinline)) static void switch_pointers(void**, void*) {
  asm volatile(
      "pushq %rbp\n\t"
      "pushq %rbx\n\t"
      "pushq %r12\n\t"
      "pushq %r13\n\t"
      "pushq %r14\n\t"
      "pushq %r15\n\t"
      "movq %rsp, (%rdi)\n\t"
      "movq %rsi, %rsp\n\t"
      "popq %r15\n\t"
      "popq %r14\n\t"
      "popq %r13\n\t"
      "popq %r12\n\t"
      "popq %rbx\n\t"
      "popq %rbp\n\t"
      "ret");
}

inline void switch_stack(SavedStack& from, SavedStack& to) {
  switch_pointers(&from.pointer, to.pointer);
}

#endif

}  // namespace lambent::host
