// SloPolicy: our own way to share slices: instances are made and moved by how long requests are
// expected to wait, held against what their SLOs allow; the mechanism is FluidFaaS's.
// docs/internals/slice-policies.md has the reasons.
#pragma once

#include <limits>
#include <map>
#include <set>
#include <vector>

#include "decide/slice_scheduling/placer.h"
#include "decide/slice_scheduling/policy.h"
#include "decide/slice_scheduling/recent_rate.h"
#include "decide/slice_scheduling/worth.h"

namespace lambent::slice_scheduling {

struct SloPolicyOptions {
  // Without a request for so long, an instance is stopped; sooner if another waits for its slices.
  Duration cold_after = std::chrono::minutes(10);
  // Instances that were busy for more than this share of the window are too few.
  double most_busy = 0.7;
  // A function without an SLO may wait for so many times its latency.
  double waits_without_slo = 5;
  // Of the jobs that an instance is given while requests that are late already wait beside others
  // that are not: one of so many is for the late.
  unsigned late_turn = 16;
  // Of the changes on a slice that several share, one of so many is for what was away longest.
  unsigned turn_of_longest_away = 4;
  // Slices of a function that would wait too long without them change hands only if the other waits
  // so many times as long as it would, and as a start takes.
  double spare_ratio = 2.5;
  // Such an instance stays for so many times what it took to start; at least a second.
  double stay_starts = 5;
  // Who takes turns on a slice stays for so many times what the change takes, if another waits.
  double turn_moves = 4;
  // Where a stage process of a pipeline holds the others up it has replicas, as long as the
  // instance has no more slices than this; 0: none have.
  size_t most_slices = 6;
};

class SloPolicy final : public SlicePolicy {
 public:
  SloPolicy(const PartitionPlacer& placer, SloPolicyOptions options,
            const pipeline::TransferCosts& costs = {})
      : placer_(first_fit(placer)), worth_(placer, costs, options.most_slices), options_(options) {}

  std::string_view name() const override { return "slo"; }
  bool reads_windows() const override { return false; }
  void arrived(const FunctionState& function, Instant now) override;
  void decide(const SliceWorld& world, Instant now, std::vector<Decision>& decisions) override;

 private:
  // What a function needs, and what it has.
  struct Demand {
    const FunctionState* function = nullptr;
    double capacity_per_s = 0;  // of all that stay, those on their way included
    size_t staying = 0;
    Duration latency{};  // of its quickest instance, or zero
    Duration allowed{};  // how long a request may wait without missing its SLO
    // How long the last in its queue is expected to wait, by `allowed`; or how busy its instances
    // are, by options.most_busy: more than 1 is too much.
    double pressure = 0;
  };
  // What a function that asks for slices of others goes without.
  struct Need {
    double wait_s = 0;      // until its queue is served
    double start_s = 0;     // until an instance of it has started
    bool has_turn = false;  // it has no instance, and misses its SLO already
  };
  // An instance whose slices may go to another function.
  struct Donor {
    const Instance* instance = nullptr;
    double pressure = 0;  // of its function without it
    Instant used{};
  };
  // Slices that are being cleared for a function.
  struct Claim {
    FunctionId function;
    pipeline::Placement placement;
    AllocationMode allocation_mode = AllocationMode::kExclusive;
    Instant made{};
  };

  // slo_policy_routing.cc: who serves which request.
  void route(const SliceWorld& world, Instant now, std::vector<Decision>& decisions);
  void route(const SliceWorld& world, const FunctionState& function, Instant now,
             std::vector<Decision>& decisions);
  bool tries_batch(const FunctionState& function, const Instance& instance, size_t from,
                   size_t open, Instant now);
  Instant may_begin(const SliceWorld& world, const Instance& instance) const;
  bool must_yield(const SliceWorld& world, const Instance& instance, Instant now) const;
  void take_turns(const SliceWorld& world, Instant now, std::vector<Decision>& decisions);
  const Instance* next_on(const SliceWorld& world, const SliceState& slice, Instant now) const;
  Instant start_by(const Instance& instance, const FunctionState& function, Instant now) const;

  // slo_policy_scaling.cc: which instances there are.
  void forget_gone(const SliceWorld& world);
  Demand demand_of(const SliceWorld& world, const FunctionState& function, Instant now) const;
  // So much capacity that what usually comes is served, and what waits in twice the time of a
  // start: less than that is over before it helps.
  double wanted_per_s(const FunctionState& function, Instant now) const;
  double pressure_with(const Demand& demand, double capacity_per_s, Instant now) const;
  double peak_per_s(FunctionId function, Instant now) const;
  double share_of(const SliceWorld& world, const Instance& instance, Instant now) const;
  void scale(const SliceWorld& world, Instant now, std::vector<Decision>& decisions);
  bool start_on_free(const SliceWorld& world, const Demand& demand,
                     std::vector<Decision>& decisions);
  bool claim_beside(const SliceWorld& world, const Demand& demand, Instant now,
                    std::vector<Decision>& decisions);
  bool claim_from_others(const SliceWorld& world, const std::vector<Demand>& demands,
                         const Demand& needy, Instant now, std::vector<Decision>& decisions);
  std::vector<Donor> donors_for(const SliceWorld& world, const std::vector<Demand>& demands,
                                const Demand& needy, Instant now) const;
  void add_donors(const SliceWorld& world, const Demand& demand, const Need& need, Instant now,
                  std::vector<Donor>& donors) const;
  std::vector<const Instance*> unclaimed_instances(const SliceWorld& world,
                                                   const FunctionState& function,
                                                   Instant now) const;
  void settle_claims(const SliceWorld& world, Instant now, std::vector<Decision>& decisions);
  bool settle(const SliceWorld& world, const Claim& claim, std::vector<Decision>& decisions);
  std::vector<Slice> unclaimed(const SliceWorld& world) const;
  bool is_claimed(DeviceId slice) const { return claimed_.contains(slice); }
  void add_claim(Claim claim);
  void tidy(const SliceWorld& world, Instant now, std::vector<Decision>& decisions);
  void migrate(const SliceWorld& world, Instant now, std::vector<Decision>& decisions);

  WorldPlacer placer_;
  Worth worth_;
  const SloPolicyOptions options_;
  std::vector<Claim> claims_;
  std::set<DeviceId> claimed_;
  struct Migration {
    InstanceId from;
    DeviceId to;
  };
  std::map<FunctionId, Migration> migrations_;
  // Of a slice that several share.
  struct Turns {
    InstanceId promised_to;  // for whom it was cleared
    unsigned changes = 0;
  };
  std::map<DeviceId, Turns> turns_;
  std::map<FunctionId, unsigned> jobs_given_;  // while late ones waited, since the last of them
  // That could have had several requests, while nothing was measured of batches.
  std::map<FunctionId, unsigned> jobs_not_measured_;
  // What was asked for in vain, and need not be again before the slices have changed.
  struct FailedSearch {
    uint64_t slices_version = 0;
    uint64_t function_version = 0;
    Instant again_at{};  // whatever has not changed until then
  };
  // Of a function's requests, kept in no windows: with those, the same requests would be served
  // well or badly by when a window begins.
  struct Rates {
    RecentRate now{seconds(1)};
    RecentRate usual{milliseconds(4500)};
    double peak_per_s = 0;  // of the last minute, at peak_at
    Instant peak_at{};
  };
  std::map<FunctionId, Rates> rates_;
  uint64_t tidied_version_ = 0;  // of the slices, when tidy() looked last
  Instant tidy_at_{};            // looks again
  uint64_t windows_seen_ = 0;    // by forget_gone()
  std::map<FunctionId, FailedSearch> no_free_;
  std::map<FunctionId, FailedSearch> no_donor_;
};

}  // namespace lambent::slice_scheduling
