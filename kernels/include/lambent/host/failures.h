// What ends a launch from within: __trap, a failed assertion. Used by kernels.
#pragma once

#include "lambent/host/threads.h"

namespace lambent::host {

constexpr int kLaunchFailed = 719;     // CUDA_ERROR_LAUNCH_FAILED
constexpr int kAssertionFailed = 710;  // CUDA_ERROR_ASSERT

// The driver ends the launch where it can, and the process ends where it cannot.
[[noreturn]] inline void fail(int result) {
  if (block.launch->fail != nullptr) block.launch->fail(block.launch, result);
  abort();
}

[[noreturn]] __attribute__((noinline, cold)) inline void fail_assertion(const char* condition,
                                                                        const char* file,
                                                                        unsigned line,
                                                                        const char* function) {
  fprintf(stderr, "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n", file,
          line, function, unsigned{blockIdx.x}, unsigned{blockIdx.y}, unsigned{blockIdx.z},
          unsigned{threadIdx.x}, unsigned{threadIdx.y}, unsigned{threadIdx.z}, condition);
  fail(kAssertionFailed);
}

[[noreturn]] __attribute__((noinline, cold)) inline void fail_nested_launch() {
  fprintf(
      stderr,
      "block [%u,%u,%u]: a kernel launches a kernel from a macro or a function for both sides, or "
      "over a driver that runs no such launches\n",
      unsigned{blockIdx.x}, unsigned{blockIdx.y}, unsigned{blockIdx.z});
  fail(kLaunchFailed);
}

// No launch runs in a module: not in a kernel, and the program itself has the host's.
inline bool runs_launch() {
  if (block.launch != nullptr) fail_nested_launch();
  return false;
}

}  // namespace lambent::host

// What lambent-bundle puts before the call that it makes of a launch.
#define LAMBENT_LAUNCH !::lambent::host::runs_launch() ? void():

[[noreturn]] inline void __trap() { lambent::host::fail(lambent::host::kLaunchFailed); }
inline void __brkpt() {}
inline void __prof_trigger(int) {}
