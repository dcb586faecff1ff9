// How the two sides wait for each other: spinning for as long as that has paid lately, then asleep
// on a flag in the shared memory. Any thread; throws, logs and allocates nothing.
#pragma once

#include <cstdint>

#include "gpu/forward_ring/layout.h"

namespace lambent::forward_ring {

// Clears the flag and wakes who sleeps on it. What they wait for must have been stored before, in
// any order: the fence is in here. No system call if no thread sleeps.
void wake(SleepFlag& flag);
// Sleeps while the flag is set, at most so long. May return early.
void sleep_while_set(SleepFlag& flag, int most_ms);
// One step of a loop that waits for another core.
void pause_briefly();

// How long it pays to spin, in steps. Not thread-safe: one of each thread, or under a lock.
//
// Two sides that answer each other and both sleep would go on so for ever: each answer then takes
// two wake-ups, tens of microseconds where cores are idle, which is longer than either spins. So
// after some waits in vain one spins as long as may be, for once: if the other has a core of its
// own its answer comes meanwhile, and from then on neither sleeps. If not, the next such trial is
// twice as far away.
class SpinBudget {
 public:
  uint32_t steps() const { return steps_; }
  void came_after(uint32_t steps);  // what was waited for came while spinning
  void did_not_come();

 private:
  static constexpr uint32_t kLeast = 64, kMost = 4096;
  static constexpr uint32_t kFirstTrial = 16, kLastTrial = 4096;  // waits before one
  uint32_t steps_ = 1024;
  bool on_trial_ = false;
  uint32_t waits_of_trial_ = kFirstTrial, waits_ = 0;
};

// Waits until `is_there()`. Before each sleep and at least every `look_ms` it asks `go_on()`; false
// if that says no first.
template <typename IsThere, typename GoOn>
bool wait_until(SleepFlag& flag, SpinBudget* budget, int look_ms, IsThere is_there, GoOn go_on) {
  if (is_there()) return true;
  if (budget != nullptr) {
    for (uint32_t step = 1; step <= budget->steps(); ++step) {
      pause_briefly();
      if (!is_there()) continue;
      budget->came_after(step);
      return true;
    }
    budget->did_not_come();
  }
  for (;;) {
    flag.store(1, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (is_there()) return true;
    if (!go_on()) return false;
    sleep_while_set(flag, look_ms);
    if (is_there()) return true;
  }
}

}  // namespace lambent::forward_ring
