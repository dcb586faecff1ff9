#include "decide/scheduling/fair_queuing.h"

#include <algorithm>
#include <utility>

namespace lambent::scheduling {
namespace {

Duration by_weight(Duration cost, double weight) {
  return weight == 1 ? cost : from_seconds(to_seconds(cost) / weight);
}

template <typename Order>
void archive_ranked(StateArchive& archive, Order& order) {
  order.archive(archive, [&](auto& rank) {
    archive.field(rank.rule);
    archive.field(rank.time);
  });
}

// In place of the virtual time of a flow that does not count for the global one.
constexpr Duration kHoldsNothing = Duration::max();

}  // namespace

// ---- Flows and their tenants

[[gnu::noinline]] FairQueuing::Tenant& FairQueuing::enter_tenant(const View& view,
                                                                 FunctionId function) {
  const uint32_t slot = view.flow(function).tenant_slot;
  if (slots_[function.value] == slot) return tenants_[slot];
  const uint32_t left = std::exchange(slots_[function.value], slot);
  // What was told of a tenant before it had a flow was noticed without it.
  for (size_t known = tenants_.size(); known <= slot; ++known) {
    tenants_.grow(known + 1);
    tenants_[known].notice_quotas(view.tenants, static_cast<uint32_t>(known));
    rounds_.hold(static_cast<uint32_t>(known), tenants_[known].held);
  }
  Tenant& before = tenants_[left];
  before.working.erase(function.value);
  if (where_[function.value] == Where::kCandidate) before.candidates.erase(function.value);
  if (where_[function.value] == Where::kThrottled) before.throttled.erase(function.value);
  where_[function.value] = Where::kNowhere;
  if (cold_is_known_) before.cold -= std::exchange(is_cold_[function.value], 0);
  rounds_.count(function, view.flow(function),
                estimate_of(view.flow(function)) * view.flow(function).gpu_count, slot);
  before.longer = rounds_.longer(left);
  scale_again(view, left);
  tenants_[slot].longer = rounds_.longer(slot);
  if (view.tenants.matter()) follow_tenant(left);
  // Virtual times of two tenants' flows say nothing of each other.
  virtual_times_[function.value] = tenants_[slot].global;
  return tenants_[slot];
}

[[gnu::noinline]] void FairQueuing::follow_tenant(uint32_t slot) {
  tenant_order_.grow(tenants_.size());
  const Tenant& tenant = tenants_[slot];
  tenant_order_.set_working(slot, !tenant.working.empty() && !tenant.held);
  tenant_order_.set_waiting(slot, tenant.waits());
}

// Quotas hold others than before, or there is another tenant.
void FairQueuing::notice_tenants(const Tenants& tenants) {
  const uint64_t noticed = std::exchange(tenants_noticed_, tenants.version());
  if (noticed == tenants.version()) return;
  const auto notice = [&](uint32_t slot) {
    if (slot >= tenants_.size()) return;
    tenants_[slot].notice_quotas(tenants, slot);
    rounds_.hold(slot, tenants_[slot].held);
    follow_tenant(slot);
  };
  if (noticed == 0 || !tenants.for_each_changed(noticed, notice)) {
    for (uint32_t slot = 0; slot < tenants_.size(); ++slot) notice(slot);
  }
  tenant_order_.advance();
}

void FairQueuing::flow_changed(const View& view, FunctionId function, Instant) {
  if (function.value >= virtual_times_.size()) {
    virtual_times_.resize(function.value + 1);
    where_.resize(function.value + 1);
    slots_.resize(function.value + 1);
    if (cold_is_known_) is_cold_.resize(function.value + 1);
  }
  accounts_.enter(view.flows, function);
  Tenant& tenant = enter_tenant(view, function);
  // A flow with work is never behind; one that was registered again may have been.
  Duration& virtual_time = virtual_times_[function.value];
  if (view.flow(function).has_work()) virtual_time = std::max(virtual_time, tenant.global);
  index(view, function);
  advance_global(view, tenant);
}

void FairQueuing::enqueued(const View& view, FunctionId function, Instant) {
  const Flow& flow = view.flow(function);
  if (flow.pending == 1 && (flow.in_flight == 0 || window_.waiting_holds_global)) {
    // Idle time banks no credit.
    Tenant& tenant = enter_tenant(view, function);
    Duration& virtual_time = virtual_times_[function.value];
    virtual_time = std::max(virtual_time, tenant.global);
    index(view, function);
    advance_global(view, tenant);
    return;
  }
  index(view, function);
}

void FairQueuing::dispatched(const View& view, FunctionId function, Instant now) {
  joined(view, function, Duration::max(), now);
}

void FairQueuing::joined(const View& view, FunctionId function, Duration since_last, Instant) {
  const Flow& flow = view.flow(function);
  // Of each of its devices.
  const Duration cost =
      std::min(window_.uniform_cost.value_or(estimate_of(flow)), since_last) * flow.gpu_count;
  Tenant& tenant = tenant_of(function);
  Duration& virtual_time = virtual_times_[function.value];
  bool is_ahead = tenant.throttles(virtual_time, window_.over_run);
  virtual_time += by_weight(cost, flow.weight);
  if (view.tenants.matter()) {
    const uint32_t slot = slots_[function.value];
    tenant_order_.grow(tenants_.size());
    is_ahead |= tenant_order_.is_ahead(slot);
    tenant_order_.charge(slot, by_weight(cost, view.tenants.weight(slot)));
  }
  if (is_ahead) ++conserving_;
  // All versions of a function have one virtual time.
  accounts_.for_each_other(view.flows, function, [&](FunctionId other) {
    if (other.value >= virtual_times_.size()) return;
    virtual_times_[other.value] = std::max(virtual_times_[other.value], virtual_time);
    index(view, other);
  });
  index(view, function);
  advance_global(view, tenant);
}

void FairQueuing::finished(const View& view, FunctionId function, Instant) {
  index(view, function);
  advance_global(view, tenant_of(function));
}

void FairQueuing::places_changed(const View& view, FunctionId function, Instant) {
  if (function.value >= where_.size()) return;
  count_cold(view, function);
  Tenant& tenant = tenant_of(function);
  if (where_[function.value] == Where::kCandidate) tenant.candidates.forget(function.value);
  if (where_[function.value] == Where::kThrottled) tenant.throttled.forget(function.value);
}

void FairQueuing::health_changed(const View& view, Instant) {
  const size_t known = std::min(virtual_times_.size(), view.flows.size());
  for (uint32_t i = 0; i < known; ++i) {
    const Flow& flow = view.flows[i];
    // Those without GPU are in other hands.
    if (flow.device_memory.count == 0) continue;
    const Tenant& tenant = tenant_of(FunctionId{i});
    if (flow.has_work()) virtual_times_[i] = std::max(virtual_times_[i], tenant.global);
    index(view, FunctionId{i});
  }
  for (Tenant& tenant : tenants_) advance_global(view, tenant);
}

// ---- Places

template <typename Key>
PlaceOrReason FairQueuing::ask_for_place(const View& view, Order<Key>& order,
                                         bool idle_devices_only) {
  const FunctionId function{order.item()};
  const Flow& flow = view.flow(function);
  PlaceOrReason found = view.fleet.places().find(function, flow, idle_devices_only);
  if (found.place) return found;
  order.take_note(view.fleet.places().note_none(function, flow, idle_devices_only));
  view.fleet.changes().tell(true);
  may_be_awaited_.resize(view.fleet.devices().size());
  for (SandboxSlot slot = view.fleet.idle().newest_of(function); slot != kNoSandbox;
       slot = view.fleet.sandbox(slot).older) {
    may_be_awaited_[view.fleet.sandbox(slot).device] = 1;
  }
  return found;
}

template <typename Key>
PlaceOrReason FairQueuing::find_place(const View& view, Order<Key>& order, bool idle_devices_only) {
  const FunctionId function{order.item()};
  if (order.note().because != NoPlace::Because::kUnknown) {
    PlaceOrReason known;
    if (view.fleet.places().still_none(order.note(), function, idle_devices_only, known))
      return known;
  }
  PlaceOrReason found = ask_for_place(view, order, idle_devices_only);
  if (!found.place) return found;
  const WaitReason obstacle = not_worth_it(view, function, *found.place);
  if (obstacle == WaitReason::kNone) return found;
  // What costs others too much there costs none on a device with nothing to do.
  if (!idle_devices_only && view.fleet.device_table().any_idle()) {
    found = view.fleet.places().find(function, view.flow(function), true);
    if (found.place) return found;
  }
  return {std::nullopt, obstacle, true};
}

// Forgets what was noted of flows for which something has changed since.
void FairQueuing::notice_changes(const Fleet& fleet) {
  const std::vector<uint32_t>& noted = tenants_.noted();
  if (noted.empty()) {
    fleet.changes().tell(false);
    changes_noticed_ = fleet.changes().count();
    return;
  }
  const uint64_t noticed = std::exchange(changes_noticed_, fleet.changes().count());
  may_be_awaited_.resize(fleet.devices().size());
  const bool tokens_alone = std::none_of(noted.begin(), noted.end(), [this](uint32_t slot) {
    const Tenant& tenant = tenants_[slot];
    return tenant.candidates.noted().any_warm_without_room() ||
           tenant.throttled.noted().any_warm_without_room();
  });
  const bool remembered = fleet.changes().for_each_since(
      noticed,
      [&](uint32_t device) {
        if (!may_be_awaited_[device]) return;
        // As after most dispatches.
        const Device& changed = fleet.devices()[device];
        if (tokens_alone && changed.healthy && !changed.has_token()) return;
        notice_device(fleet, device);
      },
      [&](uint32_t function) {
        if (function >= slots_.size()) return;
        tenant_of(FunctionId{function}).candidates.forget(function);
        tenant_of(FunctionId{function}).throttled.forget(function);
      });
  if (remembered) return;
  for (const uint32_t slot : noted) {
    tenants_[slot].candidates.forget_all();
    tenants_[slot].throttled.forget_all();
  }
}

void FairQueuing::notice_device(const Fleet& fleet, uint32_t device) {
  const auto may_end = [&](const NoPlace& note) {
    return fleet.places().may_end_wait(device, note);
  };
  bool awaited = false;
  for (const IdleSandbox& idle : fleet.idle().on(device)) {
    const uint32_t function = idle.function.value;
    if (function >= where_.size() || where_[function] == Where::kNowhere) continue;
    Tenant& tenant = tenant_of(FunctionId{function});
    if (where_[function] == Where::kCandidate) tenant.candidates.forget(function, may_end);
    if (where_[function] == Where::kThrottled) tenant.throttled.forget(function, may_end);
    awaited |=
        tenant.candidates.noted().contains(function) || tenant.throttled.noted().contains(function);
  }
  may_be_awaited_[device] = awaited ? 1 : 0;
}

// The walks below, cut short where a device with nothing to do takes a sandbox of each of those
// that lie apart: these then wait only for time, and only the others are asked. False if it cannot
// be told so. `escalates`: who comes after one that waits for a place is asked for idle devices
// only.
template <typename Key>
bool FairQueuing::decide_by_notes(const View& view, Order<Key>& order, bool idle_devices_only,
                                  bool escalates, std::optional<Decision>& decision) {
  while (!order.noted().empty() && !order.noted().any_unknown()) {
    if (!view.fleet.places().any_on_idle_device(order.noted().most_memory()) &&
        !view.fleet.places().any_on_idle_device(order.noted().find_most_memory())) {
      return false;
    }
    order.forget_nowhere();
    order.forget_until(view.fleet.places().now());
    const Instant earliest = order.skip_noted();
    bool idle_only = idle_devices_only;
    if (escalates && !idle_only) {
      // Who has no place anywhere has none on an idle device; the reverse does not hold.
      const size_t at_work = order.noted().at_work_before_others();
      if (at_work > kWarmLookAhead) return false;
      if (at_work < order.noted().size() && order.noted().note(at_work).idle_devices_only)
        return false;
      idle_only = at_work < order.noted_before();
    }
    view.fleet.places().is_time(earliest);
    if (order.done()) return true;
    const FunctionId function{order.item()};
    const PlaceOrReason found = ask_for_place(view, order, idle_only);
    if (!found.place) continue;
    if (not_worth_it(view, function, *found.place) != WaitReason::kNone) return false;
    if (!is_good_enough(view, *found.place)) return false;
    decision = Decision::to(function, *found.place);
    return true;
  }
  return order.empty();
}

void FairQueuing::count_cold(const View& view, FunctionId function) {
  if (!cold_is_known_) return;
  const bool is_cold = where_[function.value] == Where::kCandidate &&
                       view.fleet.idle().newest_of(function) == kNoSandbox;
  tenant_of(function).cold += static_cast<size_t>(is_cold) - is_cold_[function.value];
  is_cold_[function.value] = is_cold ? 1 : 0;
}

// Each candidate has an idle sandbox, which may not run without a token. A start elsewhere needs a
// device with nothing to do, and so does a throttled flow where candidates wait for places.
bool FairQueuing::all_wait_for_tokens(const View& view, const Tenant& tenant) {
  if (!view.fleet.device_table().all_full() || tenant.candidates.size() < kCountedCandidates)
    return false;
  if (!std::exchange(cold_is_known_, true)) {
    is_cold_.assign(where_.size(), 0);
    for (Tenant& each : tenants_) each.cold = 0;
    for (uint32_t i = 0; i < where_.size(); ++i) count_cold(view, FunctionId{i});
  }
  return tenant.cold == 0;
}

// ---- Decisions

Decision FairQueuing::decide(const View& view, Instant) {
  Search search;
  if (!view.tenants.matter()) return decide_in(view, tenants_[0], false, search);
  notice_tenants(view.tenants);
  std::optional<WaitReason> reason;  // of the tenant that is first
  for (const uint32_t slot : tenant_order_.waiting()) {
    if (tenants_[slot].held) continue;
    // As the throttled flows of a tenant, below.
    const bool idle_devices_only = search.waits_for_place && tenant_order_.is_ahead(slot);
    const Decision decision = decide_in(view, tenants_[slot], idle_devices_only, search);
    if (decision.dispatch) return decision;
    if (!reason) reason = decision.reason;
  }
  return Decision::nothing(reason.value_or(WaitReason::kConcurrencyLimit));
}

Decision FairQueuing::decide_in(const View& view, Tenant& tenant, bool idle_devices_only,
                                Search& search) {
  if (all_wait_for_tokens(view, tenant)) {
    search.waits_for_place = true;
    return Decision::nothing(WaitReason::kNoToken);
  }
  if (!std::exchange(search.noticed_changes, true)) notice_changes(view.fleet);
  tenants_.note(tenant);
  if (tenant.longer > Duration(0)) advance_global(view, tenant);
  Search here{.noticed_changes = true};
  if (const auto decision = decide_among_candidates(view, tenant, idle_devices_only, here)) {
    return *decision;
  }
  search.waits_for_place |= here.waits_for_place;
  idle_devices_only |= here.waits_for_place;
  // Work conservation. Flows within T that do not fit now must not be overtaken on the devices that
  // they wait for, or a large one would starve; on a device with nothing to do they would fit if
  // they ever did.
  if (const auto decision = decide_among_throttled(view, tenant, idle_devices_only)) {
    return *decision;
  }
  const bool all_throttled = tenant.candidates.empty() && !tenant.throttled.empty();
  return Decision::nothing(all_throttled ? WaitReason::kThrottled : here.reason);
}

void FairQueuing::look_ahead(const View& view, size_t most, std::vector<FunctionId>& out) {
  const auto look_in = [&](Tenant& tenant) {
    tenants_.note(tenant);
    Order<Rank>& candidates = tenant.candidates;
    for (candidates.begin(); !candidates.done() && most > 0; candidates.next(), --most) {
      out.push_back(FunctionId{candidates.item()});
    }
  };
  if (!view.tenants.matter()) return look_in(tenants_[0]);
  for (const uint32_t slot : tenant_order_.waiting()) {
    if (!tenants_[slot].held) look_in(tenants_[slot]);
  }
}

std::optional<Decision> FairQueuing::decide_among_candidates(const View& view, Tenant& tenant,
                                                             bool idle_devices_only,
                                                             Search& search) {
  Order<Rank>& candidates = tenant.candidates;
  std::optional<Decision> decision;
  // What notes tell is true of flows that no quota holds.
  if (!tenant.limits_memory && !candidates.noted().empty() &&
      decide_by_notes(view, candidates, idle_devices_only, false, decision)) {
    search.waits_for_place = candidates.noted().any_not_at_work();
    if (!candidates.noted().empty()) {
      search.reason = candidates.noted().note(0).because == NoPlace::Because::kAtWork
                          ? WaitReason::kAtWork
                          : WaitReason::kWarmElsewhere;
    }
    return decision;
  }
  size_t without_place = 0;
  size_t waiting_where_warm = 0;
  size_t passed_over = 0;
  for (candidates.begin(); !candidates.done(); candidates.next()) {
    if (idle_devices_only && !view.fleet.device_table().any_idle()) break;
    const FunctionId function{candidates.item()};
    if (tenant.limits_memory && view.hold_of(function) != WaitReason::kNone) {
      if (passed_over == 0) search.reason = view.hold_of(function);
      continue;
    }
    const PlaceOrReason found = find_place(view, candidates, idle_devices_only);
    if (found.place) {
      const bool good_enough = is_good_enough(view, *found.place);
      if (good_enough || !decision) decision = Decision::to(function, *found.place);
      if (good_enough || passed_over >= kGoodEnoughLookAhead) break;
    } else {
      if (passed_over == 0) search.reason = found.reason;
      search.waits_for_place |= found.reason != WaitReason::kAtWork;
      // Many may be warm on one busy device, and say nothing about who fits on the others.
      ++(found.waits_where_warm ? waiting_where_warm : without_place);
      const bool far = without_place > kLookAhead || waiting_where_warm > kWarmLookAhead;
      if (far && (decision || !view.fleet.device_table().any_idle())) {
        search.waits_for_place = true;  // of those behind nothing is known
        break;
      }
    }
    ++passed_over;
  }
  return decision;
}

std::optional<Decision> FairQueuing::decide_among_throttled(const View& view, Tenant& tenant,
                                                            bool idle_devices_only) {
  Order<Duration>& throttled = tenant.throttled;
  std::optional<Decision> decision;
  if (!tenant.limits_memory && !throttled.noted().empty() &&
      decide_by_notes(view, throttled, idle_devices_only, true, decision)) {
    return decision;
  }
  size_t at_work = 0;
  for (throttled.begin(); !throttled.done(); throttled.next()) {
    if (idle_devices_only && !view.fleet.device_table().any_idle()) break;
    const FunctionId function{throttled.item()};
    if (tenant.limits_memory && view.hold_of(function) != WaitReason::kNone) continue;
    const PlaceOrReason found = find_place(view, throttled, idle_devices_only);
    if (found.place) return Decision::to(function, *found.place);
    // From here on the others only overtake it where it could not run anyway; one that waits for
    // its own sandboxes delays no other.
    if (found.reason != WaitReason::kAtWork || ++at_work > kWarmLookAhead) {
      idle_devices_only = true;
    }
  }
  return std::nullopt;
}

WaitReason FairQueuing::why_waiting(const View& view, FunctionId function) const {
  const Flow& flow = view.flow(function);
  if (flow.in_flight >= flow.max_concurrency) return WaitReason::kConcurrencyLimit;
  const PlaceOrReason found = view.fleet.places().find(function, flow, false);
  if (!found.place) return found.reason;
  if (function.value >= slots_.size()) return WaitReason::kBehindOthers;
  const WaitReason obstacle = not_worth_it(view, function, *found.place);
  if (obstacle != WaitReason::kNone) return obstacle;
  const uint32_t slot = slots_[function.value];
  if (tenants_[slot].throttles(virtual_times_[function.value], window_.over_run)) {
    return WaitReason::kThrottled;
  }
  return tenant_order_.is_ahead(slot) ? WaitReason::kTenantAhead : WaitReason::kBehindOthers;
}

FlowStatus FairQueuing::status(const View& view, FunctionId function, Instant now) const {
  const Flow& flow = view.flow(function);
  if (function.value >= slots_.size()) return {};
  const Tenant& tenant = tenants_[slots_[function.value]];
  FlowStatus status{.virtual_time = virtual_times_[function.value], .global = tenant.global};
  if (!flow.has_work()) {
    status.state = now < flow.active_until ? FlowState::kActive : FlowState::kInactive;
  } else {
    const bool is_ahead = tenant.throttles(status.virtual_time, window_.over_run) ||
                          tenant_order_.is_ahead(slots_[function.value]);
    status.state = is_ahead ? FlowState::kThrottled : FlowState::kActive;
  }
  return status;
}

Duration FairQueuing::grace(const View& view, FunctionId function) const {
  const Flow& flow = view.flow(function);
  const double expected = to_seconds(flow.interarrival.mean()) * window_.anticipation;
  return expected < to_seconds(window_.longest_anticipation) ? from_seconds(expected)
                                                             : window_.longest_anticipation;
}

// ---- As bytes

void FairQueuing::archive(StateArchive& archive) {
  if (archive.reading()) tenants_.clear();
  Tenant& first = tenants_[0];
  archive.field(first.global);
  archive.field(conserving_);
  archive.list(virtual_times_);
  rounds_.archive(archive, virtual_times_.size());
  if (!archive.ok()) return;
  first.working.archive(archive);
  archive_ranked(archive, first.candidates);
  first.throttled.archive(archive);
  if (!archive.reading()) return;
  slots_.assign(virtual_times_.size(), 0);
  accounts_.forget();
  find_flows(archive);
}

void FairQueuing::archive_tenants(StateArchive& archive) {
  const size_t tenants = archive.count(tenants_.size());
  archive.expect(tenants > 0);
  if (!archive.ok()) return;
  if (archive.reading()) tenants_.grow(tenants);
  for (size_t slot = 0; slot < tenants && archive.ok(); ++slot) {
    Tenant& tenant = tenants_[slot];
    archive.field(tenant.held);
    if (slot == 0) continue;
    archive.field(tenant.global);
    tenant.working.archive(archive);
    archive_ranked(archive, tenant.candidates);
    tenant.throttled.archive(archive);
  }
  archive.list(slots_);
  for (const uint32_t slot : slots_) archive.expect(slot < tenants_.size());
  archive.expect(slots_.size() == virtual_times_.size());
  tenant_order_.archive(archive);
  archive.expect(tenant_order_.size() <= tenants_.size());
  if (!archive.reading() || !archive.ok()) return;
  find_flows(archive);
  for (uint32_t slot = 0; slot < tenant_order_.size(); ++slot) {
    tenant_order_.set_waiting(slot, tenants_[slot].waits());
  }
}

// After reading: in which heap of its tenant each flow is.
void FairQueuing::find_flows(StateArchive& archive) {
  rounds_.find_again(slots_);
  for (uint32_t slot = 0; slot < tenants_.size(); ++slot) {
    rounds_.hold(slot, tenants_[slot].held);
    tenants_[slot].longer = rounds_.longer(slot);
  }
  tenants_noticed_ = 0;
  cold_is_known_ = false;
  where_.assign(virtual_times_.size(), Where::kNowhere);
  size_t waiting = 0;
  for (const Tenant& tenant : tenants_)
    waiting += tenant.candidates.size() + tenant.throttled.size();
  for (uint32_t slot = 0; slot < tenants_.size(); ++slot) {
    const auto& working = tenants_[slot].working;
    for (size_t i = 0; i < working.size(); ++i) {
      const uint32_t function = working.item_at(i);
      archive.expect(function < slots_.size() && slots_[function] == slot);
    }
  }
  for (uint32_t i = 0; i < where_.size(); ++i) {
    const Tenant& tenant = tenants_[slots_[i]];
    if (tenant.candidates.contains(i)) where_[i] = Where::kCandidate;
    if (tenant.throttled.contains(i)) where_[i] = Where::kThrottled;
  }
  // A flow that waits has a virtual time, and waits once.
  archive.expect(waiting == where_.size() - static_cast<size_t>(std::count(
                                                where_.begin(), where_.end(), Where::kNowhere)));
}

// ---- Indexes

// Flattened, because each event of a flow comes here: with calls of the heaps' parts, which are the
// compiler's choice, a decision among ten flows takes 64 ns and not 60.
[[gnu::flatten]] void FairQueuing::index(const View& view, FunctionId function) {
  const Flow& flow = view.flow(function);
  const bool stays = slots_[function.value] == flow.tenant_slot;
  Tenant& tenant = stays ? tenants_[flow.tenant_slot] : enter_tenant(view, function);
  const Duration virtual_time = virtual_times_[function.value];
  const bool could_run = view.fleet.device_table().could_hold(flow.device_memory, flow.gpu_count);
  if (!flow.has_work() || !could_run) {
    tenant.working.erase(function.value);
  } else if (flow.waits() || !window_.waiting_holds_global) {
    tenant.working.put(function.value, virtual_time);
  } else {
    tenant.working.put(function.value, kHoldsNothing);
  }
  const bool may_start = could_run && flow.pending > 0 && flow.in_flight < flow.max_concurrency;
  rounds_.count(function, flow, estimate_of(flow) * flow.gpu_count, flow.tenant_slot);
  tenant.longer = rounds_.longer(flow.tenant_slot);
  scale_again(view, flow.tenant_slot);
  Where& where = where_[function.value];
  Where to = Where::kNowhere;
  if (may_start)
    to = tenant.throttles(virtual_time, window_.over_run) ? Where::kThrottled : Where::kCandidate;
  if (where != to) {
    if (where == Where::kCandidate) tenant.candidates.erase(function.value);
    if (where == Where::kThrottled) tenant.throttled.erase(function.value);
    where = to;
  }
  count_cold(view, function);
  if (to == Where::kCandidate) {
    tenant.candidates.put(function.value, rank_of(view, function, virtual_time));
  } else if (to == Where::kThrottled) {
    tenant.throttled.put(function.value, virtual_time);
  }
  if (view.tenants.matter()) follow_tenant(flow.tenant_slot);
}

// Each candidate of the tenant works.
void FairQueuing::scale_again(const View& view, uint32_t slot) {
  if (!rounds_.scale_again(slot, view.fleet.devices().size())) return;
  const auto& working = tenants_[slot].working;
  for (size_t i = 0; i < working.size(); ++i) rank_again(view, FunctionId{working.item_at(i)});
}

void FairQueuing::rank_again(const View& view, FunctionId function) {
  if (function.value >= where_.size() || where_[function.value] != Where::kCandidate) return;
  tenant_of(function).candidates.put(function.value,
                                     rank_of(view, function, virtual_times_[function.value]));
}

void FairQueuing::advance_global(const View& view, Tenant& tenant) {
  if (view.tenants.matter()) tenant_order_.advance();
  if (!tenant.working.empty() && tenant.working.top_key() != kHoldsNothing) {
    tenant.global = std::max(tenant.global, tenant.working.top_key());
  }
  while (!tenant.throttled.empty() &&
         !tenant.throttles(tenant.throttled.top_key(), window_.over_run)) {
    const uint32_t function = tenant.throttled.pop();
    where_[function] = Where::kCandidate;
    count_cold(view, FunctionId{function});
    tenant.candidates.put(function, rank_of(view, FunctionId{function}, virtual_times_[function]));
  }
}

}  // namespace lambent::scheduling
