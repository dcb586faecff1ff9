// FluidFaasPolicy: hotness-aware, eviction-based time sharing of slices, as published. A baseline
// that changes nothing about it but where the paper is silent; docs/internals/slice-policies.md
// lists how we read it there.
//
// Hui et al., "FluidFaaS" (HPDC 2025), sections 5.2.2 and 5.3.
#pragma once

#include <map>
#include <set>

#include "decide/slice_scheduling/placer.h"
#include "decide/slice_scheduling/policy.h"

namespace lambent::slice_scheduling {

struct FluidFaasOptions {
  // An instance that is busy for less than this share of the time shares its slice; one that is
  // busy for more has it to itself.
  double time_sharing_below = 0.30;
  // Without a request for so long, an instance is stopped.
  Duration cold_after = std::chrono::minutes(10);
  // There are fewer time-shared slices if they are busy for less than this on average.
  double shrink_sharing_below = 0.10;
  // Not within this time after there were more, or fewer.
  Duration resize_pause = seconds(10);
};

class FluidFaasPolicy final : public SlicePolicy {
 public:
  FluidFaasPolicy(Placer placer, FluidFaasOptions options)
      : placer_(std::move(placer)), options_(options) {}

  std::string_view name() const override { return "fluidfaas"; }
  void decide(const SliceWorld& world, Instant now, std::vector<Decision>& decisions) override;

 private:
  // Of a function that has requests beyond what its exclusive instances can take.
  struct Waiting {
    const FunctionState* function = nullptr;
    const Instance* sharing = nullptr;  // its time-sharing instance, if it has one
    bool owed = false;
    Instant key{};  // deadline - execution - load time of its oldest request
  };

  // Section 5.3, request routing: exclusive instances first, the quickest of them first.
  // Which instances there are, and who is on the slices that several share.
  void change(const SliceWorld& world, Instant now, std::vector<Decision>& decisions);
  // When the next instance that has no place will have one, though none of its jobs is done.
  Instant route(const SliceWorld& world, Instant now, std::vector<Decision>& decisions) const;
  std::vector<Waiting> waiting(const SliceWorld& world) const;
  // Time sharing: in the order of their keys, evicting who was used least recently.
  void take_turns(const SliceWorld& world, const std::vector<Waiting>& waiting,
                  std::vector<Decision>& decisions);
  // New instances for functions that have none, or too few to keep their SLO.
  void grow(const SliceWorld& world, Instant now, const std::vector<Waiting>& waiting,
            std::vector<Decision>& decisions);
  bool start_first(const SliceWorld& world, Instant now, const FunctionState& function,
                   std::vector<Decision>& decisions);
  bool start_beside(const SliceWorld& world, const FunctionState& function, double most_busy,
                    std::vector<Decision>& decisions);
  bool start_more(const SliceWorld& world, Instant now, const FunctionState& function,
                  const Instance* sharing, std::vector<Decision>& decisions);
  // From pipelines to single slices that became free.
  void migrate(const SliceWorld& world, std::vector<Decision>& decisions);
  void finish_migrations(const SliceWorld& world, std::vector<Decision>& decisions);
  // At the end of a window: from one state to the other, by utilisation.
  void change_states(const SliceWorld& world, Instant now, std::vector<Decision>& decisions);
  void change_state(const SliceWorld& world, const FunctionState& function,
                    std::vector<Decision>& decisions);
  void shrink(const SliceWorld& world, Instant now, std::vector<Decision>& decisions);
  void release_cold(const SliceWorld& world, Instant now, std::vector<Decision>& decisions) const;

  struct Migration {
    InstanceId from;
    DeviceId to;
  };

  WorldPlacer placer_;
  const FluidFaasOptions options_;
  uint64_t windows_seen_ = 0;
  FunctionId changed_;  // the last whose state was looked at in this window
  Instant resized_{};
  // Came to a slice for a request and have not been given it yet.
  std::set<InstanceId> owed_;
  std::map<FunctionId, Migration> migrations_;
};

}  // namespace lambent::slice_scheduling
