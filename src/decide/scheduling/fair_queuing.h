// FairQueuing: what policies have in common that keep flows within T of each other's virtual time
// and differ in who goes first within that. See policy.h for who calls it.
#pragma once

#include <optional>
#include <vector>

#include "decide/scheduling/policy.h"
#include "decide/scheduling/rounds.h"
#include "decide/scheduling/shared_accounts.h"
#include "decide/scheduling/tenant_flows.h"
#include "decide/scheduling/tenant_order.h"

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
  // T follows what waits (rounds.h), from `over_run` on.
  bool over_run_by_rounds = false;
  // What waits is counted, in such units: Rounds::scale. Ranks may depend on that. Zero: it is not.
  Duration backlog_unit{};
  // Only flows of which something waits count for global virtual time, not all with work.
  bool waiting_holds_global = false;
};

// Each flow has a virtual time: the service it was charged, divided by its weight. Global virtual
// time is the least of them over its tenant's flows with pending or running work, and never goes
// back. A flow that is more than T ahead of it is throttled: it runs only where none within T
// could.
//
// If `waiting_holds_global`, the least is only over flows with pending work. One whose work is all
// at work was given what it asked for. While its sandbox starts it is charged for a run and no
// more, which may be little: a flow with much to do would be ahead of it meanwhile, and throttled
// without a gain for any. When something of it waits again, it is at global virtual time at the
// least, like one that had no work.
//
// Whatever the order within T, for two flows of a tenant of which something waits and could run
// throughout an interval the virtual service charged in it differs by at most 2T and one charge of
// each, as long as no throttled flow is dispatched: neither is ever behind the global time, and
// neither is dispatched when it is more than T ahead of it.
//
// Invocations that join a sandbox at work are charged as they join, for the time that they add to
// its turn: above, a charge is that of a whole turn.
//
// A flow for which no healthy device is large enough (DeviceTable::could_hold) takes no part: what
// waits for a device to come back delays no other. When one does, the flow starts at global virtual
// time.
//
// A run that takes several devices together is charged the time of each.
//
// Flows that are versions of one function (Flow::account) have one virtual time: what one of them
// is charged, all are. So a function has one share, however many versions of it are served.
//
// If a token is free and every flow that could use it is throttled, the one least ahead runs all
// the same (counted by conserving_dispatches): no device idles for fairness.
//
// Tenants come before flows (tenant_order.h): each has a virtual time too, of all that its flows
// were charged, and the flows of the tenant with the least are asked first, as if there were no
// other tenant. If none of them has a place, the next tenant is asked. A tenant that is more than T
// ahead of the tenants' global virtual time goes only where no other could, and not to devices that
// flows of tenants within T wait for. A tenant whose quotas hold all of its flows takes no part.
//
// For two tenants that have work and could run throughout an interval the virtual service charged
// in it differs by at most 2T and one charge of each, as long as no tenant is dispatched that is
// more than T ahead; and by at most one charge of each if, whenever one of the two is dispatched,
// the other has a flow with a place too: the other was then charged no less.
//
// Cost: a few updates of 4-ary heaps per event. Flows that were asked and have no place lie in
// sorted arrays with notes of why (waiting_order.h), which are moved and scanned as far as they are
// long; the idle sandboxes of devices that changed are looked at for them. And a decision looks
// past at most kLookAhead candidates that do not fit, and kWarmLookAhead of those that wait for the
// token of a device where they are warm (past all of them if a device has nothing to do). Where no
// device has a token and all candidates have idle sandboxes, none is asked. All flows are looked
// at when the health of a device changes; of tenants those with notes at each decision, and those
// that a quota begins or ceases to hold; and all flows that wait of a tenant with a quota of memory
// at each decision about it. Functions and tenants that rest are looked at by none of this.
class FairQueuing : public Policy {
 public:
  explicit FairQueuing(FairQueuingOptions options)
      : rounds_(options.over_run, options.over_run_by_rounds, options.backlog_unit),
        window_(options) {}

  void flow_changed(const View& view, FunctionId function, Instant now) override;
  void enqueued(const View& view, FunctionId function, Instant now) override;
  void dispatched(const View& view, FunctionId function, Instant now) override;
  void finished(const View& view, FunctionId function, Instant now) override;
  void joined(const View& view, FunctionId function, Duration since_last, Instant now) override;
  void places_changed(const View& view, FunctionId function, Instant now) override;
  void health_changed(const View& view, Instant now) override;
  Decision decide(const View& view, Instant now) override;
  void look_ahead(const View& view, size_t most, std::vector<FunctionId>& out) override;
  WaitReason why_waiting(const View& view, FunctionId function) const override;
  FlowStatus status(const View& view, FunctionId function, Instant now) const override;
  Duration grace(const View& view, FunctionId function) const override;
  Duration global_virtual_time() const override {
    return tenant_order_.size() > 1 ? tenant_order_.global() : tenants_[0].global;
  }
  Duration tenant_virtual_time(uint32_t slot) const override {
    return tenant_order_.virtual_time(slot);
  }
  uint64_t conserving_dispatches() const override { return conserving_; }
  void archive(StateArchive& archive) override;
  void archive_tenants(StateArchive& archive) override;

 protected:
  using Rank = FairRank;

  // Where a flow that may start one more invocation stands within T. It may depend on the flow, its
  // virtual time, its sandboxes and its tenant's scale (Rounds::scale), not on the time: it is
  // asked when one of these has changed.
  virtual Rank rank_of(const View& view, FunctionId function, Duration virtual_time) const = 0;
  // Whether a candidate that fits goes there before all that come after it. If not, the next
  // kGoodEnoughLookAhead are looked at for one that does; without any it goes all the same.
  virtual bool is_good_enough(const View&, const Place&) const { return true; }
  // What keeps a flow from a place that it has found because others would lose more by it than is
  // gained; kNone: nothing does. Such a flow waits, and is asked again at every decision.
  virtual WaitReason not_worth_it(const View&, FunctionId, const Place&) const {
    return WaitReason::kNone;
  }

  // Puts the flow into the heaps where it belongs now.
  void index(const View& view, FunctionId function);
  // Ranks the tenant's candidates again, if its scale has changed.
  void scale_again(const View& view, uint32_t slot);
  // The same as index() for one of which only the rank may have changed.
  void rank_again(const View& view, FunctionId function);
  // What an invocation of the flow is expected to take on the device.
  Duration estimate_of(const Flow& flow) const {
    return flow.execution.mean_or(window_.first_estimate.value_or(window_.over_run / 10));
  }

  // What waits of each tenant. When its scale changes, the tenant's candidates are ranked again.
  Rounds rounds_;

 private:
  static constexpr size_t kLookAhead = 16;
  static constexpr size_t kWarmLookAhead = 256;
  static constexpr size_t kGoodEnoughLookAhead = 64;
  // Fewer are asked sooner than counted.
  static constexpr size_t kCountedCandidates = 8;

  template <typename Key>
  using Order = WaitingOrder<Key, true>;
  using Tenant = TenantFlows;
  // What one decision has found out so far.
  struct Search {
    bool noticed_changes = false;
    // Whether one was passed over that waits for a place, and not for its own sandboxes at work.
    bool waits_for_place = false;
    WaitReason reason = WaitReason::kConcurrencyLimit;
  };

  // The tenant that has the flow; and the same after it was moved to the one that its profile
  // names.
  Tenant& tenant_of(FunctionId function) { return tenants_[slots_[function.value]]; }
  Tenant& enter_tenant(const View& view, FunctionId function);
  // Tells the order of tenants whether this one works and waits.
  void follow_tenant(uint32_t slot);
  void notice_tenants(const Tenants& tenants);
  Decision decide_in(const View& view, Tenant& tenant, bool idle_devices_only, Search& search);

  // Forgets what was noted of flows that may have a place now.
  void notice_changes(const Fleet& fleet);
  void notice_device(const Fleet& fleet, uint32_t device);
  // What Places::find says of the flow at which the walk is; noted if there is none. And the
  // same from what was noted, if that stands.
  template <typename Key>
  PlaceOrReason ask_for_place(const View& view, Order<Key>& order, bool idle_devices_only);
  template <typename Key>
  PlaceOrReason find_place(const View& view, Order<Key>& order, bool idle_devices_only);
  template <typename Key>
  bool decide_by_notes(const View& view, Order<Key>& order, bool idle_devices_only, bool escalates,
                       std::optional<Decision>& decision);
  // And moves those that are within T by now to the candidates.
  void advance_global(const View& view, Tenant& tenant);
  void find_flows(StateArchive& archive);
  // Whether none of these flows has a place, as one can tell without asking.
  bool all_wait_for_tokens(const View& view, const Tenant& tenant);
  // After every change of where_ or of the function's idle sandboxes.
  void count_cold(const View& view, FunctionId function);
  std::optional<Decision> decide_among_candidates(const View& view, Tenant& tenant,
                                                  bool idle_devices_only, Search& search);
  std::optional<Decision> decide_among_throttled(const View& view, Tenant& tenant,
                                                 bool idle_devices_only);

  FairQueuingOptions window_;
  uint64_t conserving_ = 0;
  TenantTable tenants_;
  // Kept from when tenants matter on (Tenants::matter).
  TenantOrder tenant_order_{window_.over_run};
  uint64_t tenants_noticed_ = 0;         // by Tenants::version
  std::vector<uint32_t> slots_;          // of their tenants, by FunctionId
  std::vector<Duration> virtual_times_;  // likewise
  SharedAccounts accounts_;
  enum class Where : uint8_t { kNowhere, kCandidate, kThrottled };
  std::vector<Where> where_;  // it waits; likewise
  // Whether it is a candidate without an idle sandbox: from when that matters first.
  std::vector<uint8_t> is_cold_;
  bool cold_is_known_ = false;
  uint64_t changes_noticed_ = 0;  // by Fleet::changes
  // By device: false where no flow of which something is noted has an idle sandbox.
  std::vector<uint8_t> may_be_awaited_;
};

}  // namespace lambent::scheduling
