#include "gpu/forward_ring/waiting.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace lambent::forward_ring {
namespace {

long futex(SleepFlag& flag, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, &flag, operation, value, timeout, nullptr, 0);
}

}  // namespace

// The fence stands between the store of what was waited for and the look at the flag; a sleeper has
// one between the flag and its look at what it waits for. So at least one of the two sees the
// other.
void wake(SleepFlag& flag) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (flag.load(std::memory_order_relaxed) == 0) return;
  if (flag.exchange(0) != 0) futex(flag, FUTEX_WAKE, UINT32_MAX >> 1, nullptr);
}

void sleep_while_set(SleepFlag& flag, int most_ms) {
  const timespec timeout = {most_ms / 1000, most_ms % 1000 * 1'000'000L};
  futex(flag, FUTEX_WAIT, 1, &timeout);
}

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void SpinBudget::came_after(uint32_t steps) {
  const uint32_t wanted = steps > kMost / 4 ? kMost : 4 * steps;
  if (on_trial_) {
    on_trial_ = false;
    waits_of_trial_ = kFirstTrial;
    waits_ = 0;
    steps_ = kLeast;
  }
  if (wanted > steps_) steps_ = wanted;
}

void SpinBudget::did_not_come() {
  if (on_trial_) {
    on_trial_ = false;
    waits_of_trial_ = waits_of_trial_ < kLastTrial ? 2 * waits_of_trial_ : kLastTrial;
    steps_ = kLeast;
    return;
  }
  steps_ = steps_ / 2 > kLeast ? steps_ / 2 : kLeast;
  if (steps_ > kLeast || ++waits_ < waits_of_trial_) return;
  waits_ = 0;
  on_trial_ = true;
  steps_ = kMost;
}

}  // namespace lambent::forward_ring
