// Batch: the function that holds the oldest invocation runs all that it had waiting at that moment,
// one after the other in one sandbox on one token. A baseline; see policy.h for who calls it.
#pragma once

#include <vector>

#include "decide/scheduling/indexed_heap.h"
#include "decide/scheduling/policy.h"

namespace lambent::scheduling {

// A function has one batch at a time, whatever its max_concurrency: spreading a batch over tokens
// would start duplicate sandboxes and make the baseline unfairly weak. What arrives while a batch
// runs waits for the next one. The end of one item and the start of the next are one event, so no
// other function gets the token in between.
class BatchPolicy final : public Policy {
 public:
  std::string_view name() const override { return "batch"; }
  void flow_changed(const View& view, FunctionId function, Instant now) override;
  void enqueued(const View& view, FunctionId function, Instant now) override;
  void dispatched(const View& view, FunctionId function, Instant now) override;
  void finished(const View& view, FunctionId function, Instant now) override;
  Decision decide(const View& view, Instant now) override;
  void look_ahead(const View& view, size_t most, std::vector<FunctionId>& out) override;
  WaitReason why_waiting(const View& view, FunctionId function) const override;
  FlowStatus status(const View& view, FunctionId function, Instant now) const override;
  bool places_gangs() const override { return false; }
  void archive(StateArchive& archive) override;

 private:
  struct Batch {
    uint64_t number = 0;  // in the order of their start
    uint32_t left = 0;    // items not dispatched yet
  };

  void index(const View& view, FunctionId function);

  std::vector<Batch> batches_;  // by FunctionId
  uint64_t started_ = 0;
  // Flows whose batch has an item to dispatch next, by the batch's number.
  IndexedHeap<uint64_t> continuing_;
  // Flows that could start a batch, by the arrival of their oldest.
  IndexedHeap<uint64_t> by_arrival_;
};

}  // namespace lambent::scheduling
