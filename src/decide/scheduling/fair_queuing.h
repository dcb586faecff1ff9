// FairQueuing: what policies have in common that keep flows within T of each other's virtual time
// and differ in who goes first within that. See policy.h for who calls it.
#pragma once

#include <optional>
#include <vector>

#include "decide/scheduling/indexed_heap.h"
#include "decide/scheduling/policy.h"
#include "decide/scheduling/waiting_order.h"

namespace lambent::scheduling {

struct FairQueuingOptions {
  // T: how far a flow's virtual time may be ahead of the global one before it is throttled. More is
  // better locality and coarser fairness. (The paper does not print its value; its code has 10 s.)
  Duration over_run = seconds(20);
  // An empty flow stays active for this many of its mean inter-arrival times, at most so long.
  double anticipation = 1.5;
  Duration longest_anticipation = seconds(60);
  // What an invocation of a function that never finished one is taken to last; unset: a tenth of T.
  std::optional<Duration> first_estimate;
  // Ablation: every invocation is charged this, whatever its function takes.
  std::optional<Duration> uniform_cost;
};

// Each flow has a virtual time: the service it was charged, divided by its weight. Global virtual
// time is the least of them over the flows with pending or running work, and never goes back. A
// flow that is more than T ahead of it is throttled: it runs only where nobody within T could.
//
// Whatever the order within T, for two flows that have work and could run throughout an interval
// the virtual service charged in it differs by at most 2T and one charge of each, as long as no
// throttled flow is dispatched: neither is ever behind the global time, and neither is dispatched
// when it is more than T ahead of it.
//
// A flow for which no healthy device is large enough (DeviceTable::could_hold) takes no part: what
// waits for a device to come back holds nobody up. When one does, the flow starts at global virtual
// time.
//
// If a token is free and every flow that could use it is throttled, the one least ahead runs all
// the same (counted by conserving_dispatches): no device idles for fairness.
//
// Cost: a few updates of 4-ary heaps per event. Flows that were asked and have no place lie in
// sorted arrays with notes of why (waiting_order.h), which are moved and scanned as far as they are
// long; the idle sandboxes of devices that changed are looked at for them. And a decision looks
// past at most kLookAhead candidates that do not fit, and kWarmLookAhead of those that wait for the
// token of a device where they are warm (past all of them if a device has nothing to do). Where no
// device has a token and all candidates have idle sandboxes, nobody is asked. All flows are looked
// at when the health of a device changes.
class FairQueuing : public Policy {
 public:
  explicit FairQueuing(FairQueuingOptions options) : window_(options) {}

  void flow_changed(const View& view, FunctionId function, Instant now) override;
  void enqueued(const View& view, FunctionId function, Instant now) override;
  void dispatched(const View& view, FunctionId function, Instant now) override;
  void finished(const View& view, FunctionId function, Instant now) override;
  void places_changed(const View& view, FunctionId function, Instant now) override;
  void health_changed(const View& view, Instant now) override;
  Decision decide(const View& view, Instant now) override;
  void look_ahead(const View& view, size_t most, std::vector<FunctionId>& out) override;
  WaitReason why_waiting(const View& view, FunctionId function) const override;
  FlowStatus status(const View& view, FunctionId function, Instant now) const override;
  Duration grace(const View& view, FunctionId function) const override;
  Duration global_virtual_time() const override { return global_; }
  uint64_t conserving_dispatches() const override { return conserving_; }
  void archive(StateArchive& archive) override;

 protected:
  // Orders candidates, the least first; of equals the lower FunctionId.
  struct Rank {
    uint64_t rule = 0;
    Duration time{};  // never negative
    bool operator==(const Rank&) const = default;
    // One comparison of 128 bits has no branch in it.
    bool operator<(const Rank& other) const { return word() < other.word(); }
    unsigned __int128 word() const {
      return static_cast<unsigned __int128>(rule) << 64 | static_cast<uint64_t>(time.count());
    }
  };

  // Where a flow that may start one more invocation stands within T. It may depend on the flow, its
  // virtual time and its sandboxes, not on the time: it is asked when one of these has changed.
  virtual Rank rank_of(const View& view, FunctionId function, Duration virtual_time) const = 0;
  // Whether a candidate that fits goes there before all that come after it. If not, the next
  // kGoodEnoughLookAhead are looked at for one that does; without any it goes all the same.
  virtual bool is_good_enough(const View&, const Place&) const { return true; }

  // Puts the flow into the heaps where it belongs now.
  void index(const View& view, FunctionId function);
  // The same for one whose rank alone may have changed.
  void rank_again(const View& view, FunctionId function);
  // What an invocation of the flow is expected to take on the device.
  Duration estimate_of(const Flow& flow) const {
    return flow.execution.mean_or(window_.first_estimate.value_or(window_.over_run / 10));
  }

 private:
  static constexpr size_t kLookAhead = 16;
  static constexpr size_t kWarmLookAhead = 256;
  static constexpr size_t kGoodEnoughLookAhead = 64;
  // Fewer are asked sooner than counted.
  static constexpr size_t kCountedCandidates = 8;

  // Forgets what was noted of flows that may have a place now.
  void notice_changes(const Fleet& fleet);
  void notice_device(const Fleet& fleet, uint32_t device);
  // What Places::find says of the flow at which the walk is; noted if there is none. And the
  // same from what was noted, if that stands.
  template <typename Key>
  PlaceOrReason ask_for_place(const View& view, WaitingOrder<Key>& order, bool idle_devices_only);
  template <typename Key>
  PlaceOrReason find_place(const View& view, WaitingOrder<Key>& order, bool idle_devices_only);
  template <typename Key>
  bool decide_by_notes(const View& view, WaitingOrder<Key>& order, bool idle_devices_only,
                       bool escalates, std::optional<Decision>& decision);
  Duration virtual_time_of(FunctionId function) const;
  Duration charge_of(const Flow& flow) const;
  bool is_throttled(Duration virtual_time) const {
    return virtual_time > global_ + window_.over_run;
  }
  void advance_global(const View& view);
  // Whether nobody has a place, as one can tell without asking.
  bool all_wait_for_tokens(const View& view);
  // After every change of where_ or of the function's idle sandboxes.
  void count_cold(const View& view, FunctionId function);
  // `wait_for_place`: whether one was passed over that waits for a place, and not for its own
  // sandboxes at work.
  std::optional<Decision> decide_among_candidates(const View& view, WaitReason& reason,
                                                  bool& wait_for_place);
  std::optional<Decision> decide_among_throttled(const View& view, bool idle_devices_only);

  FairQueuingOptions window_;
  Duration global_{};
  uint64_t conserving_ = 0;
  std::vector<Duration> virtual_times_;  // by FunctionId
  enum class Where : uint8_t { kNowhere, kCandidate, kThrottled };
  std::vector<Where> where_;  // it waits; likewise
  // Candidates without an idle sandbox, and how many they are: from when that matters first.
  std::vector<uint8_t> is_cold_;
  size_t cold_ = 0;
  bool cold_is_known_ = false;
  // Flows with pending or running work that some healthy device could hold.
  IndexedHeap<Duration> working_;
  // Flows that may start one more invocation: those within T, and those beyond.
  WaitingOrder<Rank> candidates_;
  WaitingOrder<Duration> throttled_;
  uint64_t changes_noticed_ = 0;  // by Fleet::changes
  // By device: false where no flow of which something is noted has an idle sandbox.
  std::vector<uint8_t> may_be_awaited_;
};

}  // namespace lambent::scheduling
