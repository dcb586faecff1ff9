#include "emulator/emulated_node/byte_locks.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

namespace lambent::emulated_node {
namespace {

// The node is mostly held for microseconds: a waiter gives up its processor so often before it
// sleeps.
constexpr int kYields = 50;
constexpr int64_t kShortestSleep_ns = 20'000;
constexpr int64_t kLongestSleep_ns = 1'000'000;

int64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

bool apply(int fd, int command, struct flock& lock) {
  int result;
  do {
    result = fcntl(fd, command, &lock);
  } while (result == -1 && errno == EINTR);
  return result == 0;
}

struct flock bytes_of(off_t first, off_t count, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = first;
  lock.l_len = count;
  return lock;
}

}  // namespace

bool try_lock(int fd, off_t byte) {
  struct flock lock = bytes_of(byte, 1, F_WRLCK);
  return apply(fd, F_OFD_SETLK, lock);
}

bool lock_within(int fd, off_t byte, int64_t most_ns) {
  for (int i = 0; i <= kYields; i++) {
    if (try_lock(fd, byte)) return true;
    if (errno != EAGAIN && errno != EACCES) return false;
    sched_yield();
  }
  const int64_t end_ns = now_ns() + most_ns;
  for (int64_t sleep_ns = kShortestSleep_ns; now_ns() < end_ns;
       sleep_ns = std::min(2 * sleep_ns, kLongestSleep_ns)) {
    const timespec span{0, sleep_ns};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &span, nullptr);
    if (try_lock(fd, byte)) return true;
  }
  return false;
}

void unlock(int fd, off_t byte) {
  struct flock lock = bytes_of(byte, 1, F_UNLCK);
  apply(fd, F_OFD_SETLK, lock);
}

bool is_locked_by_others(int fd, off_t first, off_t count) {
  struct flock lock = bytes_of(first, count, F_WRLCK);
  return !apply(fd, F_OFD_GETLK, lock) || lock.l_type != F_UNLCK;
}

}  // namespace lambent::emulated_node
