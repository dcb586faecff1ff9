// MQFQ-Sticky: multi-queue fair queuing made sticky for serverless GPUs (MQFQ-Sticky, HPDC'25),
// with the readings that docs/scheduling.md argues for. See policy.h for who calls it.
#pragma once

#include <compare>
#include <optional>
#include <vector>

#include "scheduling/indexed_heap.h"
#include "scheduling/policy.h"

namespace lambent::scheduling {

// Which of the flows that may run goes first.
enum class CandidateOrder {
  kInFlightFirst,  // fewest in flight, then longest queue: the paper's listing
  kLengthFirst,    // longest queue, then fewest in flight: the paper's prose
};

struct MqfqOptions {
  // T: how far a flow's virtual time may be ahead of the global one before it is throttled. More is
  // better locality and coarser fairness. (The paper does not print its value; its code has 10 s.)
  Duration over_run = seconds(20);
  // An empty flow stays active for this many of its mean inter-arrival times, at most so long.
  double anticipation = 1.5;
  Duration longest_anticipation = seconds(60);
  // What an invocation of a function that never finished one is charged; unset: a tenth of T.
  std::optional<Duration> first_estimate;
  CandidateOrder order = CandidateOrder::kInFlightFirst;
  // With kLengthFirst: a flow that already has something in flight still comes after those that
  // have nothing, so that no second sandbox is started while another function could run.
  bool duplicates_last = true;
  // Where memory moves: of the flows that may run, the first whose memory is on the device goes
  // before those that would have to bring it. They catch up when it is T ahead.
  bool memory_first = false;
  // Ablation: every invocation is charged this, whatever its function takes.
  std::optional<Duration> uniform_cost;

  // As printed, but for the misprints: T = 10 s, and second sandboxes for a running flow count as
  // any candidate (give functions a max_concurrency above 1 to see them).
  static MqfqOptions strict_paper() { return {.over_run = seconds(10), .duplicates_last = false}; }
};

// Each flow has a virtual time: the service it was charged, divided by its weight. Global virtual
// time is the least of them over the flows with pending or running work, and never goes back.
//
// Where the paper contradicts itself this follows its meaning:
// - A flow is throttled when its virtual time is more than T *ahead* of the global one (the listing
//   and the prose have the comparison the wrong way round).
// - An empty flow in its grace period keeps its sandbox but does not take part in the minimum: one
//   silent function would otherwise hold everybody back while the device idles.
// - If a token is free and every flow that could use it is throttled, the one least ahead runs all
//   the same (counted by conserving_dispatches).
//
// Cost: a few updates of 4-ary heaps per event, nothing scanned, except that a decision looks past
// at most kLookAhead candidates that do not fit (past all of them if a device has nothing to do);
// with memory_first, past kMemoryLookAhead that fit and whose memory is elsewhere.
class MqfqStickyPolicy final : public Policy {
 public:
  explicit MqfqStickyPolicy(MqfqOptions options) : options_(options) {}

  std::string_view name() const override {
    return options_.uniform_cost ? "mqfq-uniform" : "mqfq-sticky";
  }
  void flow_changed(const View& view, FunctionId function, Instant now) override;
  void enqueued(const View& view, FunctionId function, Instant now) override;
  void dispatched(const View& view, FunctionId function, Instant now) override;
  void finished(const View& view, FunctionId function, Instant now) override;
  Decision decide(const View& view, Instant now) override;
  void foresee(const View& view, size_t most, std::vector<FunctionId>& out) override;
  WaitReason why_waiting(const View& view, FunctionId function) const override;
  FlowStanding standing(const View& view, FunctionId function, Instant now) const override;
  Duration grace(const View& view, FunctionId function) const override;
  Duration global_virtual_time() const override { return global_; }
  uint64_t conserving_dispatches() const override { return conserving_; }
  void archive(StateArchive& archive) override;

  const MqfqOptions& options() const { return options_; }

 private:
  static constexpr size_t kLookAhead = 16;
  static constexpr size_t kMemoryLookAhead = 64;

  // Orders candidates: by the rule of `order`, then by virtual time.
  struct Rank {
    uint64_t rule = 0;
    Duration virtual_time{};
    bool operator==(const Rank&) const = default;
    // One comparison of 128 bits has no branch in it; virtual times are never negative.
    bool operator<(const Rank& other) const { return word() < other.word(); }
    unsigned __int128 word() const {
      return static_cast<unsigned __int128>(rule) << 64 |
             static_cast<uint64_t>(virtual_time.count());
    }
  };

  Duration virtual_time_of(FunctionId function) const;
  Duration charge_of(const Flow& flow) const;
  bool is_throttled(Duration virtual_time) const {
    return virtual_time > global_ + options_.over_run;
  }
  Rank rank_of(const Flow& flow, Duration virtual_time) const;
  // Puts the flow into the heaps where it belongs now.
  void index(const View& view, FunctionId function);
  void advance_global(const View& view);
  std::optional<Decision> decide_among_candidates(const View& view, WaitReason& reason);
  std::optional<Decision> decide_among_throttled(const View& view, bool idle_devices_only);

  MqfqOptions options_;
  Duration global_{};
  uint64_t conserving_ = 0;
  std::vector<Duration> virtual_times_;  // by FunctionId
  // Flows with pending or running work.
  IndexedHeap<Duration> working_;
  // Flows that may start one more invocation: those within T, and those beyond.
  IndexedHeap<Rank> candidates_;
  IndexedHeap<Duration> throttled_;
  std::vector<uint32_t> passed_over_;  // while deciding
};

}  // namespace lambent::scheduling
