#include "gpu/executor/device_thread.h"

#include <utility>

#include "core/base/check.h"

namespace lambent::executor {

DeviceThread::DeviceThread(loop::EventLoop& loop, const cuda::Context& context)
    : loop_(loop), thread_([this, &context] { serve(context); }) {}

DeviceThread::~DeviceThread() {
  *alive_ = false;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void DeviceThread::run(std::function<void()> work, std::function<void()> then) {
  {
    const MutexLock lock(mutex_);
    tasks_.push_back({std::move(work), std::move(then)});
  }
  wake_.notify_one();
}

void DeviceThread::serve(const cuda::Context& context) {
  CHECK(context.enter().ok(), "a context that is there can be entered");
  MutexLock lock(mutex_);
  for (;;) {
    while (!stopping_ && tasks_.empty()) wake_.wait(lock);
    if (stopping_) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task.work();
    const bool posted = loop_.post([alive = alive_, then = std::move(task.then)] {
      if (*alive) then();
    });
    CHECK(posted, "the loop has room for one task a request");
    lock.lock();
  }
}

}  // namespace lambent::executor
