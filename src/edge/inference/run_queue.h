// RunQueue: the inferences that wait for a model, and the thread on which it runs, one run after
// the other. Those that fit together run as one batch where that is allowed
// (decide/batching/batch_policy.h says when, and how many). On the loop thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/loop/event_loop.h"
#include "core/loop/work_thread.h"
#include "decide/batching/batch_policy.h"
#include "edge/inference/infer_request.h"

namespace lambent::inference {

// One inference, from its request to its outputs.
struct QueuedRun {
  InferRequest request;
  Instant queued{};
  Instant started{};   // of the run of the model that it was in
  Instant computed{};  // the end of that
  Result<std::vector<Tensor>> outputs = std::vector<Tensor>();
  std::function<void()> done;  // on the loop thread
};

// Runs of one size.
struct BatchCount {
  uint64_t count = 0;
  Duration time{};
};

class RunQueue {
 public:
  // The most that wait.
  static constexpr size_t kMostWaiting = loop::WorkThread::kQueueLimit;

  // Both outlive it. Limits with more than one element in a run are for models with has_batches().
  RunQueue(ModelEngine& engine, loop::EventLoop& loop, batching::BatchLimits limits);
  // Waits for the run that goes on; what waits for it is not run.
  ~RunQueue();
  RunQueue(const RunQueue&) = delete;
  RunQueue& operator=(const RunQueue&) = delete;

  // Shared with the thread. False if too many wait.
  bool submit(std::shared_ptr<QueuedRun> run);

  uint64_t executions() const { return executions_; }
  // By how many elements a run had, for as many sizes as are kept.
  const std::map<uint64_t, BatchCount>& batches() const { return batches_; }

 private:
  using Batch = std::vector<std::shared_ptr<QueuedRun>>;
  struct Execution;
  bool makes_batches() const { return limits_.most_elements > 1 && !gave_up_; }
  void begin_next();
  // Which of those that wait run now; empty: none yet.
  Batch take_next();
  bool start(Batch batch);
  void ended(const Execution& execution);

  ModelEngine& engine_;
  loop::EventLoop& loop_;
  const batching::BatchLimits limits_;
  batching::BatchPolicy policy_;
  // Only where batches are made: else all are in the thread's own queue.
  std::deque<std::shared_ptr<QueuedRun>> waiting_;
  bool is_running_ = false;
  bool gave_up_ = false;  // the outputs of a batch were none
  std::optional<loop::TimerId> timer_;
  uint64_t executions_ = 0;
  std::map<uint64_t, BatchCount> batches_;
  std::atomic<bool> closing_ = false;
  loop::WorkThread thread_;  // last: what it runs reads the others
};

}  // namespace lambent::inference
