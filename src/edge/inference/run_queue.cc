#include "edge/inference/run_queue.h"

#include <algorithm>
#include <utility>

#include "edge/inference/batch.h"

namespace lambent::inference {
namespace {

// How many sizes of runs are counted apart.
constexpr size_t kMostSizes = 128;

std::vector<std::string> output_names(const InferRequest& request) {
  std::vector<std::string> names;
  for (const RequestedOutput& output : request.outputs) names.push_back(output.name);
  return names;
}

void run_alone(ModelEngine& engine, const Clock& clock, QueuedRun& run) {
  run.started = clock.now();
  run.outputs = engine.run(run.request.inputs, output_names(run.request));
  run.computed = clock.now();
}

}  // namespace

// What the thread does: one run, or one for each where they cannot be one after all.
struct RunQueue::Execution {
  Batch batch;
  std::vector<uint64_t> elements;  // of each
  uint64_t all = 0;
  bool makes_no_batches = false;  // the outputs were none of a batch
  bool was_one_run = true;

  void perform(ModelEngine& engine, const Clock& clock) {
    if (batch.size() > 1 && run_together(engine, clock)) return;
    was_one_run = batch.size() == 1;
    for (const auto& run : batch) run_alone(engine, clock, *run);
  }

 private:
  bool run_together(ModelEngine& engine, const Clock& clock) {
    const Instant started = clock.now();
    std::vector<const InferRequest*> requests;
    for (const auto& run : batch) requests.push_back(&run->request);
    const std::vector<Tensor> inputs = join_inputs(requests);
    // What one of them did wrong is told to that one only, so each is run by itself.
    const auto outputs = engine.run(inputs, output_names(*requests.front()));
    if (!outputs.ok()) return false;
    auto split = split_outputs(*outputs, elements);
    makes_no_batches = !split.ok();
    if (makes_no_batches) return false;
    for (size_t i = 0; i < batch.size(); ++i) {
      batch[i]->started = started;
      batch[i]->outputs = std::move((*split)[i]);
      batch[i]->computed = clock.now();
    }
    return true;
  }
};

RunQueue::RunQueue(ModelEngine& engine, loop::EventLoop& loop, batching::BatchLimits limits)
    : engine_(engine), loop_(loop), limits_(limits), policy_(limits), thread_(loop) {}

RunQueue::~RunQueue() {
  closing_ = true;
  if (timer_) loop_.cancel(*timer_);
}

bool RunQueue::submit(std::shared_ptr<QueuedRun> run) {
  run->queued = loop_.clock().now();
  if (!makes_batches() && waiting_.empty()) return start({std::move(run)});
  if (waiting_.size() >= kMostWaiting) return false;
  waiting_.push_back(std::move(run));
  begin_next();
  return true;
}

void RunQueue::begin_next() {
  if (is_running_ || waiting_.empty()) return;
  if (timer_) loop_.cancel(*std::exchange(timer_, std::nullopt));
  if (Batch batch = take_next(); !batch.empty()) start(std::move(batch));
}

RunQueue::Batch RunQueue::take_next() {
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

bool RunQueue::start(Batch batch) {
  // Shared because a task must be copyable.
  auto execution = std::make_shared<Execution>();
  for (const auto& run : batch) {
    execution->elements.push_back(batch_elements(run->request).value_or(1));
    execution->all += execution->elements.back();
  }
  execution->batch = std::move(batch);
  const bool is_taken = thread_.run(
      [this, execution] {
        if (!closing_) execution->perform(engine_, loop_.clock());
      },
      [this, execution] { ended(*execution); });
  is_running_ = is_running_ || is_taken;
  return is_taken;
}

void RunQueue::ended(const Execution& execution) {
  const QueuedRun& oldest = *execution.batch.front();
  const Duration time = oldest.computed - oldest.started;
  executions_ += execution.was_one_run ? 1 : execution.batch.size();
  if (execution.was_one_run) {
    if (batches_.size() < kMostSizes || batches_.contains(execution.all)) {
      BatchCount& count = batches_[execution.all];
      ++count.count;
      count.time += time;
    }
    policy_.ran(execution.all, time);
  }
  gave_up_ = gave_up_ || execution.makes_no_batches;
  is_running_ = false;
  // The model goes on while answers are written.
  begin_next();
  for (const auto& run : execution.batch) run->done();
}

}  // namespace lambent::inference
