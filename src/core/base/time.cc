#include "core/base/time.h"

#include <ctime>

namespace lambent {
namespace {

Duration read_clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

}  // namespace

Instant SystemClock::now() const { return Instant(read_clock(CLOCK_MONOTONIC)); }
Duration SystemClock::wall_now() const { return read_clock(CLOCK_REALTIME); }

}  // namespace lambent
