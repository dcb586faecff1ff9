// First come, first served: one queue over all functions, with a warm pool (FcfsPolicy) or with a
// sandbox of its own for every invocation ("naive"). A baseline; see policy.h for who calls it.
#pragma once

#include "decide/scheduling/indexed_heap.h"
#include "decide/scheduling/policy.h"

namespace lambent::scheduling {

struct FcfsOptions {
  bool keeps_sandboxes = true;  // false: naive, every invocation is cold
  // What the paper's FCFS does with a function's memory after each invocation. How strong this
  // baseline is depends on it, so results must name it.
  bool moves_off_after_run = true;
};

// The oldest invocation goes first and nothing overtakes it, with one exception: a function that
// already runs as many as it may, or waits for its own sandboxes at work, does not hold the others
// up, for the limit is its own.
class FcfsPolicy final : public Policy {
 public:
  explicit FcfsPolicy(FcfsOptions options) : options_(options) {}

  std::string_view name() const override {
    return options_.keeps_sandboxes ? "fcfs" : "fcfs-naive";
  }
  void flow_changed(const View& view, FunctionId function, Instant now) override;
  void enqueued(const View& view, FunctionId function, Instant now) override;
  void dispatched(const View& view, FunctionId function, Instant now) override;
  void finished(const View& view, FunctionId function, Instant now) override;
  Decision decide(const View& view, Instant now) override;
  void look_ahead(const View& view, size_t most, std::vector<FunctionId>& out) override;
  WaitReason why_waiting(const View& view, FunctionId function) const override;
  FlowStatus status(const View& view, FunctionId function, Instant now) const override;
  void adapt(FleetOptions& options) const override {
    // Each invocation has a sandbox of its own, so none is worth waiting for.
    if (!options_.keeps_sandboxes) options.second_grace_period = 0;
  }
  bool keeps_sandboxes() const override { return options_.keeps_sandboxes; }
  bool moves_off_after_run() const override { return options_.moves_off_after_run; }
  void archive(StateArchive& archive) override;

 private:
  FcfsOptions options_;
  // Flows that may start one more, by the arrival of their oldest.
  IndexedHeap<uint64_t> by_arrival_;
};

}  // namespace lambent::scheduling
