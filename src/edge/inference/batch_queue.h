// BatchQueue: the inferences that wait for a model which makes one run after the other. Those that
// fit together run as one batch where that is allowed (decide/batching/batch_policy.h says when,
// and how many). Who owns it makes the runs. On the loop thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/loop/event_loop.h"
#include "core/loop/work_thread.h"
#include "decide/batching/batch_policy.h"
#include "edge/inference/infer_request.h"
#include "edge/inference/infer_statistics.h"

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

class BatchQueue {
 public:
  using Batch = std::vector<std::shared_ptr<QueuedRun>>;
  // The most that wait.
  static constexpr size_t kMostWaiting = loop::WorkThread::kQueueLimit;

  // Begins a run of these, one or more; false if it cannot.
  using Start = std::function<bool(Batch)>;
  // The loop outlives it.
  BatchQueue(loop::EventLoop& loop, batching::BatchLimits limits, Start start);
  ~BatchQueue();
  BatchQueue(const BatchQueue&) = delete;
  BatchQueue& operator=(const BatchQueue&) = delete;

  // False if too many wait. Where no batches are made and none waits, it starts at once.
  bool submit(std::shared_ptr<QueuedRun> run);

  // A run that was started has ended, and took so long; `was_one_run` is false if its inferences
  // had to be run one by one.
  struct Ended {
    uint64_t elements = 1;
    size_t inferences = 1;
    Duration time{};
    bool was_one_run = true;
    bool makes_no_batches = false;  // the outputs of a batch were none: no more are made
  };
  void ended(const Ended& run);

  // Whether none waits or runs.
  bool is_idle() const { return !is_running_ && waiting_.empty(); }
  const RunCounts& counts() const { return counts_; }

 private:
  bool makes_batches() const { return limits_.most_elements > 1 && !gave_up_; }
  void begin_next();
  // Which of those that wait run now; empty: none yet.
  Batch take_next();
  bool begin(Batch batch);

  loop::EventLoop& loop_;
  const batching::BatchLimits limits_;
  const Start start_;
  batching::BatchPolicy policy_;
  std::deque<std::shared_ptr<QueuedRun>> waiting_;
  bool is_running_ = false;
  bool gave_up_ = false;
  std::optional<loop::TimerId> timer_;
  RunCounts counts_;
};

}  // namespace lambent::inference
