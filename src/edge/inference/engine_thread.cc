#include "edge/inference/engine_thread.h"

#include <memory>
#include <utility>

namespace lambent::inference {

EngineThread::EngineThread(ModelEngine& engine, loop::EventLoop& loop)
    : engine_(engine), loop_(loop), thread_([this] { serve(); }) {}

EngineThread::~EngineThread() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

void EngineThread::run(Work work) {
  MutexLock lock(mutex_);
  queue_.push_back({std::move(work), loop_.clock().now()});
  changed_.notify_one();
}

void EngineThread::serve() {
  for (;;) {
    Queued next;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) changed_.wait(lock);
      if (stopping_) return;
      next = std::move(queue_.front());
      queue_.pop_front();
    }
    const Instant begin = loop_.clock().now();
    // Shared because a task must be copyable.
    auto run = std::make_shared<EngineRun>();
    run->queued = begin - next.since;
    run->outputs = engine_.run(next.work.inputs, next.work.outputs);
    run->compute = loop_.clock().now() - begin;
    // A full mailbox empties: it has room for far more than there are requests.
    while (!loop_.post([run, done = next.work.done] { done(std::move(*run)); })) {
      std::this_thread::yield();
    }
  }
}

}  // namespace lambent::inference
