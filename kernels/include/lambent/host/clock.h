// Clocks and waiting inside a kernel: real time of this machine, never the model's. Used by
// kernels.
#pragma once

#include <time.h>

// The real driver sleeps between nothing and twice the time asked for, of at most a millisecond.
inline void __nanosleep(unsigned nanoseconds) {
  const unsigned longest_ns = 1'000'000;
  const timespec duration{0, nanoseconds < longest_ns ? nanoseconds : longest_ns};
  nanosleep(&duration, nullptr);
}

// Ticks of a nanosecond each.
inline long long clock64() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000ll + now.tv_nsec;
}
