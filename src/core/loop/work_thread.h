// WorkThread: runs what takes long (work on the disk, a model) off the loop thread, one task at a
// time, in order. run() is called on the loop thread; work runs on the thread, its completion on
// the loop thread again, and what both hold ends there.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "core/base/mutex.h"
#include "core/loop/event_loop.h"

namespace lambent::loop {

class WorkThread {
 public:
  explicit WorkThread(EventLoop& loop);
  // Finishes what is queued; completions that find the loop gone are dropped.
  ~WorkThread();
  WorkThread(const WorkThread&) = delete;
  WorkThread& operator=(const WorkThread&) = delete;

  // The most tasks that may wait.
  static constexpr size_t kQueueLimit = 1024;

  // False if the queue is full.
  bool run(std::function<void()> work, std::function<void()> completion);

 private:
  struct Task {
    std::function<void()> work;
    std::function<void()> completion;
  };
  void serve();
  void complete(std::function<void()> completion);

  EventLoop& loop_;
  Mutex mutex_;
  Condition wake_;
  std::deque<Task> tasks_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lambent::loop
