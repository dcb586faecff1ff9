// Density: fair queuing that serves, within T, the flow that is done soonest for what it takes:
// invocations per second of set-up and execution. The policy that ships. See policy.h for who calls
// it.
#pragma once

#include <vector>

#include "decide/scheduling/fair_queuing.h"
#include "decide/scheduling/gain.h"

namespace lambent::scheduling {

struct DensityOptions {
  // So much longer must the first of a queue have waited to make up for twice the cost. Less is
  // nearer to first come, first served; more leaves the costly ones waiting for longer.
  Duration grace_period = seconds(20);
  // What starting a sandbox is taken to last for a function that never had one.
  Duration first_start = seconds(1);
  // At what rate memory is taken to come onto a device. Half or four times as much changes little.
  double link_bytes_per_second = 10e9;
  // Whether it weighs what a run beside others, and a sandbox beside others, gain against what they
  // cost (gain.h), by what it learns of how runs slow each other down; and whether T grows with
  // what waits (FairQueuingOptions::over_run_by_rounds). A worker's default; false: as in the
  // journals of before.
  bool adapts = false;
  // Where it adapts: whether how much waits counts in that. The grace period follows the backlog,
  // so that where all wait for long the short ones still go first; and a run begins beside others
  // also for what waits behind them (gains_now). And slow-downs are learnt less from functions
  // whose runs vary (FleetOptions::spread). False: as in the journals of before.
  bool weighs_queue = false;
  // Where it weighs what waits: whether functions whose runs vary together, those that follow each
  // other, tell less of slow-downs too (Spread::kOfSeveral), and whether what leaves to make room
  // is taken to come back. False: as in journals of before state version 23.
  bool weighs_returns = true;
};

// What an invocation of a flow costs is its execution and its part of the set-up that it, and those
// that wait with it, need first:
//
//   cost = (execution + set-up / pending) / weight
//
// where the set-up is nothing if an idle sandbox has its memory on the device, the time to bring
// that if it is on the host, and a cold start if there is no idle sandbox (those on a device that
// is not healthy count for nothing); all but the speed of the link are learnt. To serve the least
// cost first keeps the mean wait down: short functions and those that are warm do not wait for long
// or cold ones, and a cold start is made when there is enough for it to do. So that none waits
// for ever, each flow has a due time,
//
//   due = when the first of its queue came + grace period x log2(cost),
//
// and of the flows within T the one that is due first goes first. Due times do not change while
// time passes, so a heap holds them; its order is that of density x 2^(wait / grace period).
//
// A flow that has something in flight comes after all that have nothing: a second sandbox of a
// function that is running is a hidden cold start. Of those that have nothing in flight, and of
// those that have, one that sheds (admission.h) comes last: the first of its queue has always
// waited longest.
//
// If it adapts, three things are weighed by what it learnt of how runs slow each other down:
// - A run begins beside others only if that saves it, and what waits behind it, more than it costs
//   all (gain.h); else it waits for the first of those to end, or for one of them to be late.
//   Beside one other, up to a slow-down of a half, that is always so.
// - A function gets another sandbox beside those at work only where what waits gains more by it
//   than its start costs, and than it costs those that are evicted for it.
// - No start takes the place of an idle sandbox that a flow within T waits to run in.
// A device with nothing to do takes whatever fits, and T grows with what waits
// (over_run_by_rounds).
//
// If it weighs what waits, the grace period is as long as a device needs for half of the tenant's
// backlog, but one to three times what it was set to, in whole times; and only flows of which
// something waits count for global virtual time (waiting_holds_global). And a set-up counts twice
// (weighs_returns): what leaves to make room for it has to come back, which is another set-up.
//
// What is promised, beside the fairness that FairQueuing states:
// - Of two flows within T with nothing in flight, neither of which sheds, that both find a place,
//   the one of cost c is not
//   overtaken by an invocation of cost c' < c that came more than grace period x (log2(c / c') +
//   0.09), the longest that it was meanwhile, after the first of its queue (0.09: the logarithm is
//   taken by straight lines, which are exact at the powers of two). Waiting is bounded by the ratio
//   of costs, whatever the load.
// - With equal costs it is first come, first served, as long as none of them sheds.
class DensityPolicy final : public FairQueuing {
 public:
  DensityPolicy(FairQueuingOptions fair_queuing, DensityOptions options);

  std::string_view name() const override { return "density"; }
  void adapt(FleetOptions& options) const override;
  Decision decide(const View& view, Instant now) override;
  void places_changed(const View& view, FunctionId function, Instant now) override;
  FlowStatus status(const View& view, FunctionId function, Instant now) const override;

  // The instant by which flows are ordered, and what goes into it; for tests and `why`.
  Duration cost_of(const View& view, FunctionId function) const;
  Duration set_up_of(const View& view, FunctionId function) const;
  Instant due_of(const View& view, FunctionId function) const;

 private:
  Rank rank_of(const View& view, FunctionId function, Duration virtual_time) const override;
  WaitReason not_worth_it(const View& view, FunctionId function, const Place& place) const override;
  bool drives_out_wanted(const View& view, FunctionId function, const Place& place) const;
  bool second_gains(const View& view, FunctionId function, const Place& place) const;
  bool run_gains(const View& view, FunctionId function, const Place& place) const;
  Duration takes(const View& view, FunctionId function) const;

  DensityOptions options_;
  // What run_gains() finds at work on a device, which is the same for all that one decision asks.
  struct AtWork {
    uint32_t device = 0;
    std::vector<Share> shares;
    Duration until_late{};  // of the run that has least left: until it has done all that it takes
  };
  const AtWork& at_work_on(const View& view, uint32_t device) const;
  bool in_decision_ = false;
  mutable bool knows_at_work_ = false;
  mutable AtWork at_work_;
};

}  // namespace lambent::scheduling
