// FileThread: runs slow disk work (unpacking code, removing folders) off the loop thread, one task
// at a time. run() is called on the loop thread; work runs on the thread, its completion on the
// loop thread again.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "core/loop/event_loop.h"

namespace lambent::worker {

class FileThread {
 public:
  explicit FileThread(loop::EventLoop& loop);
  // Finishes what is queued; completions that find the loop gone are dropped.
  ~FileThread();
  FileThread(const FileThread&) = delete;
  FileThread& operator=(const FileThread&) = delete;

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

  loop::EventLoop& loop_;
  std::mutex mutex_;  // guards tasks_ and stopping_
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lambent::worker
