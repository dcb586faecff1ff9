#include "core/loop/work_thread.h"

#include <chrono>
#include <memory>
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
    // What it holds may be the completion's too, which is to be the last to have it.
    task.work = nullptr;
    complete(std::move(task.completion));
  }
}

void WorkThread::complete(std::function<void()> completion) {
  // The loop takes it out of here: what it holds does not end on this thread. Shared because tasks
  // must be copyable.
  const auto held = std::make_shared<std::function<void()>>(std::move(completion));
  const auto run = [held] { std::exchange(*held, nullptr)(); };
  // A full mailbox empties as the loop turns; when the loop has stopped, no one waits for the
  // completion.
  while (!loop_.post(run)) {
    MutexLock lock(mutex_);
    if (!stopping_) wake_.wait_for(lock, std::chrono::milliseconds(1));
    if (stopping_) return;
  }
}

}  // namespace lambent::loop
