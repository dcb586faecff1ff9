// MQFQ-Sticky: multi-queue fair queuing made sticky for serverless GPUs (MQFQ-Sticky, HPDC'25),
// with the readings that docs/reference/scheduling.md argues for. See policy.h for who calls it.
#pragma once

#include <optional>

#include "decide/scheduling/fair_queuing.h"

namespace lambent::scheduling {

// Which of the flows that may run goes first.
enum class CandidateOrder {
  kInFlightFirst,  // fewest in flight, then longest queue: the paper's listing
  kLengthFirst,    // longest queue, then fewest in flight: the paper's prose
};

struct MqfqOptions {
  // As in FairQueuingOptions.
  Duration over_run = seconds(20);
  double anticipation = 1.5;
  Duration longest_anticipation = seconds(60);
  std::optional<Duration> first_estimate;
  std::optional<Duration> uniform_cost;
  CandidateOrder order = CandidateOrder::kInFlightFirst;
  // With kLengthFirst: a flow that already has something in flight still comes after those that
  // have nothing, so that no second sandbox is started while another function could run.
  bool duplicates_last = true;
  // Where memory moves: of the flows that may run, the first whose memory is on the device goes
  // before those that would have to bring it. They catch up when it is T ahead.
  bool memory_first = false;

  FairQueuingOptions fair_queuing() const {
    return {.over_run = over_run,
            .anticipation = anticipation,
            .longest_anticipation = longest_anticipation,
            .first_estimate = first_estimate,
            .uniform_cost = uniform_cost};
  }

  // As printed, but for the misprints: T = 10 s, and second sandboxes for a running flow count as
  // any candidate (at once with second_grace_period 0).
  static MqfqOptions strict_paper() { return {.over_run = seconds(10), .duplicates_last = false}; }
};

// Fair queuing whose order within T is made to be sticky: flows with nothing running, the longest
// queue first, so that a warm sandbox serves several in a row.
//
// Where the paper contradicts itself this follows its meaning:
// - A flow is throttled when its virtual time is more than T *ahead* of the global one (the listing
//   and the prose have the comparison the wrong way round).
// - An empty flow in its grace period keeps its sandbox but does not take part in the minimum: one
//   silent function would otherwise hold all others back while the device idles.
// - If a token is free and every flow that could use it is throttled, the one least ahead runs all
//   the same.
class MqfqStickyPolicy final : public FairQueuing {
 public:
  explicit MqfqStickyPolicy(MqfqOptions options)
      : FairQueuing(options.fair_queuing()), options_(options) {}

  std::string_view name() const override {
    return options_.uniform_cost ? "mqfq-uniform" : "mqfq-sticky";
  }
  const MqfqOptions& options() const { return options_; }

 private:
  // By the rule of `order`, then by virtual time.
  Rank rank_of(const View& view, FunctionId function, Duration virtual_time) const override;
  bool is_good_enough(const View& view, const Place& place) const override;

  MqfqOptions options_;
};

}  // namespace lambent::scheduling
