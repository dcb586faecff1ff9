// FcfsSlicesPolicy: the simplest that works: one exclusive instance for each function that has
// requests, on the first placement that fits. A baseline, and what is easiest to reason about.
#pragma once

#include "decide/slice_scheduling/placer.h"
#include "decide/slice_scheduling/policy.h"

namespace lambent::slice_scheduling {

struct FcfsSlicesOptions {
  Duration keep_alive = seconds(60);  // an idle instance is stopped after that
};

// Functions are served in the order of their oldest requests; one that fits no free slices has the
// idle instance used least recently stopped for it.
class FcfsSlicesPolicy final : public SlicePolicy {
 public:
  FcfsSlicesPolicy(Placer placer, FcfsSlicesOptions options)
      : placer_(std::move(placer)), options_(options) {}

  std::string_view name() const override { return "fcfs"; }
  void decide(const SliceWorld& world, Instant now, std::vector<Decision>& decisions) override;

 private:
  bool start_one(const SliceWorld& world, Instant now, std::vector<Decision>& decisions);

  WorldPlacer placer_;
  const FcfsSlicesOptions options_;
};

}  // namespace lambent::slice_scheduling
