#include "edge/inference/batch_queue.h"

#include <algorithm>
#include <utility>

#include "edge/inference/batch.h"

namespace lambent::inference {

BatchQueue::BatchQueue(loop::EventLoop& loop, batching::BatchLimits limits, Start start)
    : loop_(loop), limits_(limits), start_(std::move(start)), policy_(limits) {}

BatchQueue::~BatchQueue() {
  if (timer_) loop_.cancel(*timer_);
}

bool BatchQueue::submit(std::shared_ptr<QueuedRun> run) {
  run->queued = loop_.clock().now();
  if (!makes_batches() && waiting_.empty()) return begin({std::move(run)});
  if (waiting_.size() >= kMostWaiting) return false;
  waiting_.push_back(std::move(run));
  begin_next();
  return true;
}

bool BatchQueue::begin(Batch batch) {
  // It may end before this returns.
  const bool was_running = std::exchange(is_running_, true);
  const bool is_taken = start_(std::move(batch));
  if (!is_taken) is_running_ = was_running;
  return is_taken;
}

void BatchQueue::begin_next() {
  if (is_running_ || waiting_.empty()) return;
  if (timer_) loop_.cancel(*std::exchange(timer_, std::nullopt));
  if (Batch batch = take_next(); !batch.empty()) begin(std::move(batch));
}

BatchQueue::Batch BatchQueue::take_next() {
  std::vector<size_t> fitting = {0};
  std::vector<batching::Waiting> seen;
  const InferRequest& first = waiting_.front()->request;
  const auto its_elements = batch_elements(first);
  if (its_elements && makes_batches()) {
    fitting.clear();
    for (size_t i = 0; i < waiting_.size() && fitting.size() <= limits_.most_elements; ++i) {
      const auto elements = batch_elements(waiting_[i]->request);
      if (!elements || !fit_together(first, waiting_[i]->request)) continue;
      fitting.push_back(i);
      seen.push_back({waiting_[i]->queued, *elements});
    }
    const auto decision = policy_.decide(seen, loop_.clock().now());
    // Others that wait for the model are no reason to leave it idle.
    const bool others_wait = fitting.size() < waiting_.size();
    if (decision.requests == 0 && !others_wait) {
      timer_ = loop_.call_at(decision.again, [this] {
        timer_.reset();
        begin_next();
      });
      return {};
    }
    fitting.resize(std::max<size_t>(decision.requests, 1));
  }
  Batch batch;
  for (auto place = fitting.rbegin(); place != fitting.rend(); ++place) {
    const auto run = waiting_.begin() + static_cast<ptrdiff_t>(*place);
    batch.push_back(std::move(*run));
    waiting_.erase(run);
  }
  std::reverse(batch.begin(), batch.end());
  return batch;
}

void BatchQueue::ended(const Ended& run) {
  counts_.executions += run.was_one_run ? 1 : run.inferences;
  if (run.was_one_run) {
    counts_.add_batch(run.elements, run.time);
    policy_.ran(run.elements, run.time);
  }
  gave_up_ = gave_up_ || run.makes_no_batches;
  is_running_ = false;
  begin_next();
}

}  // namespace lambent::inference
