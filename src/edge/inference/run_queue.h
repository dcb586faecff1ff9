// RunQueue: a BatchQueue before an engine that blocks, and the thread on which it runs. On the loop
// thread.
#pragma once

#include <atomic>
#include <memory>

#include "core/loop/event_loop.h"
#include "core/loop/work_thread.h"
#include "edge/inference/batch_queue.h"

namespace lambent::inference {

class RunQueue {
 public:
  static constexpr size_t kMostWaiting = BatchQueue::kMostWaiting;

  // Both outlive it. Limits with more than one element in a run are for models with has_batches().
  RunQueue(ModelEngine& engine, loop::EventLoop& loop, batching::BatchLimits limits);
  // Waits for the run that goes on; what waits for it is not run.
  ~RunQueue();
  RunQueue(const RunQueue&) = delete;
  RunQueue& operator=(const RunQueue&) = delete;

  // Shared with the thread. False if too many wait.
  bool submit(std::shared_ptr<QueuedRun> run) { return queue_.submit(std::move(run)); }

  const RunCounts& counts() const { return queue_.counts(); }

 private:
  struct Execution;
  bool start(BatchQueue::Batch batch);
  void ended(const Execution& execution);

  ModelEngine& engine_;
  loop::EventLoop& loop_;
  BatchQueue queue_;
  std::atomic<bool> closing_ = false;
  loop::WorkThread thread_;  // last: what it runs reads the others
};

}  // namespace lambent::inference
