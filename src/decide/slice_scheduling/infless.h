// InflessPolicy: a baseline. It keeps as many instances as the rate of arrivals asks for, each on
// the slice that gives most requests a second for its multiprocessors, and deals requests out to
// them; a function is always on one slice.
//
// Yang et al., "INFless" (ASPLOS 2022), with MIG slices as its resources: its greedy scheduling by
// resource efficiency and its batching within the SLO. Its keep-alive from histograms of gaps is
// simplified to a fixed time.
#pragma once

#include "decide/slice_scheduling/whole_functions.h"

namespace lambent::slice_scheduling {

struct InflessOptions {
  WholeFunctionsOptions whole;
  // Instances are kept for this many times the rate of arrivals.
  double headroom = 2;
  // A batch may wait for this share of what the SLO leaves beside the execution.
  double batch_wait = 0.5;
};

class InflessPolicy final : public SlicePolicy {
 public:
  InflessPolicy(Placer placer, InflessOptions options)
      : functions_(std::move(placer), options.whole), options_(options) {}

  std::string_view name() const override { return "infless"; }
  void decide(const SliceWorld& world, Instant now, std::vector<Decision>& decisions) override;

 private:
  void serve(const SliceWorld& world, const FunctionState& function, Instant now,
             std::vector<Decision>& decisions) const;
  void scale_out(const SliceWorld& world, const FunctionState& function, Instant now,
                 std::vector<Decision>& decisions);

  WholeFunctions functions_;
  const InflessOptions options_;
};

}  // namespace lambent::slice_scheduling
