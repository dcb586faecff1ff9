#include "core/loop/work_thread.h"

#include <chrono>
#include <utility>

namespace lambent::loop {

WorkThread::WorkThread(EventLoop& loop) : loop_(loop), thread_([this] { serve(); }) {}

WorkThread::~WorkThread() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

bool WorkThread::run(std::function<void()> work, std::function<void()> completion) {
  {
    const MutexLock lock(mutex_);
    if (tasks_.size() >= kQueueLimit) return false;
    tasks_.push_back(Task{std::move(work), std::move(completion)});
  }
  wake_.notify_one();
  return true;
}

void WorkThread::serve() {
  while (true) {
    Task task;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && tasks_.empty()) wake_.wait(lock);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task.work();
    complete(std::move(task.completion));
  }
}

void WorkThread::complete(std::function<void()> completion) {
  // A full mailbox empties as the loop turns; when the loop has stopped, no one waits for the
  // completion.
  while (!loop_.post(completion)) {
    MutexLock lock(mutex_);
    if (!stopping_) wake_.wait_for(lock, std::chrono::milliseconds(1));
    if (stopping_) return;
  }
}

}  // namespace lambent::loop
