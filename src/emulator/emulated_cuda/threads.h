// Threads of the driver's own: with every signal blocked, because the program's signals are the
// business of the program's threads. Used by streams, block pools and graphs; any thread.
#pragma once

#include <deque>
#include <functional>

#include "core/base/mutex.h"

namespace lambent::emulated_cuda {

// Starts a thread that is never joined: the driver is never unloaded.
void start_thread(std::function<void()> body);

// For a thread on which the body of a kernel faulted: it may hold a lock of the C library or a torn
// state of the module, so that it neither runs anything more nor ends, which would run destructors
// over that state.
[[noreturn]] void rest_for_ever();

// Threads that are kept for the next task once they have done one. A task gets a thread of its own
// at once, as long as there are fewer than `most`; then it waits for one to come free. A task that
// returns false has used its thread up: it rests for ever and does not count.
class ThreadCache {
 public:
  explicit ThreadCache(unsigned most) : most_(most) {}
  void run(std::function<bool()> task);

 private:
  void work();

  const unsigned most_;
  Mutex mutex_;
  Condition wake_;
  std::deque<std::function<bool()>> tasks_ GUARDED_BY(mutex_);
  unsigned threads_ GUARDED_BY(mutex_) = 0;
  unsigned idle_ GUARDED_BY(mutex_) = 0;
};

}  // namespace lambent::emulated_cuda
