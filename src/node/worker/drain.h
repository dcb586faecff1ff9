// Drain: whether the worker is stopping, and when its last work has ended. Used by the parts of
// Worker on the loop thread.
#pragma once

#include <functional>
#include <utility>

#include "core/loop/event_loop.h"

namespace lambent::worker {

class Drain {
 public:
  // `is_idle`: no work is left. The loop outlives it.
  Drain(loop::EventLoop& loop, std::function<bool()> is_idle)
      : loop_(loop), is_idle_(std::move(is_idle)) {}

  bool draining() const { return draining_; }
  // No more work is taken from now on; `drained` is called by the loop when none is left, and
  // replaces what was passed before. False: it was draining already.
  bool begin(std::function<void()> drained) {
    drained_ = std::move(drained);
    return !std::exchange(draining_, true);
  }
  // Some work has ended, perhaps the last.
  void check() {
    if (!drained_ || !is_idle_()) return;
    // The caller may be deep in the handling of an event.
    loop_.call_after(Duration(0), std::exchange(drained_, nullptr));
  }

 private:
  loop::EventLoop& loop_;
  const std::function<bool()> is_idle_;
  bool draining_ = false;
  std::function<void()> drained_;
};

}  // namespace lambent::worker
