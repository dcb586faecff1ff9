#include "edge/inference/run_queue.h"

#include <algorithm>
#include <utility>

#include "edge/inference/batch.h"

namespace lambent::inference {
namespace {

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
  BatchQueue::Batch batch;
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
    : engine_(engine),
      loop_(loop),
      queue_(loop, limits, [this](BatchQueue::Batch batch) { return start(std::move(batch)); }),
      thread_(loop) {}

RunQueue::~RunQueue() { closing_ = true; }

bool RunQueue::start(BatchQueue::Batch batch) {
  // Shared because a task must be copyable.
  auto execution = std::make_shared<Execution>();
  for (const auto& run : batch) {
    execution->elements.push_back(batch_elements(run->request).value_or(1));
    execution->all += execution->elements.back();
  }
  execution->batch = std::move(batch);
  return thread_.run(
      [this, execution] {
        if (!closing_) execution->perform(engine_, loop_.clock());
      },
      [this, execution] { ended(*execution); });
}

void RunQueue::ended(const Execution& execution) {
  const QueuedRun& oldest = *execution.batch.front();
  // The model goes on while answers are written.
  queue_.ended({.elements = execution.all,
                .inferences = execution.batch.size(),
                .time = oldest.computed - oldest.started,
                .was_one_run = execution.was_one_run,
                .makes_no_batches = execution.makes_no_batches});
  for (const auto& run : execution.batch) run->done();
}

}  // namespace lambent::inference
