// Nanoseconds of the monotonic clock. For the preloaded libraries, on any thread.
#pragma once

#include <stdint.h>
#include <time.h>

namespace lambent::shim {

inline uint64_t now_ns() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace lambent::shim
