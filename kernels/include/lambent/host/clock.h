// Clocks and waiting inside a kernel: real time of this machine, never the model's. Used by
// kernels.
#pragma once

#include <time.h>

#include "lambent/host/barriers.h"

// Other threads of the block go on; if all of them sleep, the host thread does, for at most a
// millisecond.
LAMBENT_INLINE void __nanosleep(unsigned nanoseconds) {
  using lambent::host::block;
  const unsigned longest_ns = 999'999;
  block.request = lambent::host::Request::kYield;
  block.sleep_ns = nanoseconds < longest_ns ? nanoseconds : longest_ns;
  lambent::host::leave_thread();
}

// Ticks of a nanosecond each.
inline long long clock64() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000ll + now.tv_nsec;
}

// What a kernel gets that calls clock(): the module is linked so. The C library's, of the same
// name, counts the processor time of the process.
extern "C" __attribute__((visibility("hidden"), used)) inline clock_t __wrap_clock() {
  return static_cast<clock_t>(clock64());
}
