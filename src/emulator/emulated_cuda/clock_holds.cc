#include "emulator/emulated_cuda/clock_holds.h"

namespace lambent::emulated_cuda {

namespace {
thread_local ClockHolds* t_holds = nullptr;
thread_local bool t_held = false;
thread_local int64_t t_at_ns = 0;
}  // namespace

void ClockHolds::add(int64_t at_ns, int count) {
  if (count == 0) return;
  const MutexLock lock(mutex_);
  counts_[at_ns] += count;
  publish();
}

void ClockHolds::move(int64_t from_ns, int64_t to_ns) {
  if (from_ns == to_ns) return;
  const MutexLock lock(mutex_);
  counts_[to_ns]++;
  auto from = counts_.find(from_ns);
  if (--from->second == 0) counts_.erase(from);
  publish();
}

void ClockHolds::remove(int64_t at_ns) {
  const MutexLock lock(mutex_);
  auto at = counts_.find(at_ns);
  if (--at->second == 0) counts_.erase(at);
  publish();
}

void ClockHolds::publish() {
  int64_t earliest_ns = counts_.empty() ? 0 : counts_.begin()->first;
  if (earliest_ns == published_ns_) return;
  published_ns_ = earliest_ns;
  node_.hold_clock(earliest_ns);
}

void ThreadClock::begin(ClockHolds* holds) { t_holds = holds; }

void ThreadClock::adopt(int64_t at_ns) {
  release();
  t_held = true;
  t_at_ns = at_ns;
}

void ThreadClock::hold(int64_t at_ns) {
  if (!t_holds) return;
  if (t_held) {
    t_holds->move(t_at_ns, at_ns);
  } else {
    t_holds->add(at_ns);
  }
  t_held = true;
  t_at_ns = at_ns;
}

void ThreadClock::release() {
  if (!t_held) return;
  t_holds->remove(t_at_ns);
  t_held = false;
}

}  // namespace lambent::emulated_cuda
