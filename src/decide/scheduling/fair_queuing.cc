#include "decide/scheduling/fair_queuing.h"

#include <algorithm>
#include <utility>

namespace lambent::scheduling {

void FairQueuing::flow_changed(const View& view, FunctionId function, Instant) {
  if (function.value >= virtual_times_.size()) {
    virtual_times_.resize(function.value + 1);
    where_.resize(function.value + 1);
    if (cold_is_known_) is_cold_.resize(function.value + 1);
  }
  // A flow with work is never behind; one that was registered again may have been.
  Duration& virtual_time = virtual_times_[function.value];
  if (view.flow(function).has_work()) virtual_time = std::max(virtual_time, global_);
  index(view, function);
  advance_global(view);
}

void FairQueuing::enqueued(const View& view, FunctionId function, Instant) {
  const Flow& flow = view.flow(function);
  if (flow.pending == 1 && flow.in_flight == 0) {
    // Idle time banks no credit.
    Duration& virtual_time = virtual_times_[function.value];
    virtual_time = std::max(virtual_time, global_);
    index(view, function);
    advance_global(view);
    return;
  }
  index(view, function);
}

void FairQueuing::dispatched(const View& view, FunctionId function, Instant) {
  Duration& virtual_time = virtual_times_[function.value];
  if (is_throttled(virtual_time)) ++conserving_;
  virtual_time += charge_of(view.flow(function));
  index(view, function);
  advance_global(view);
}

void FairQueuing::finished(const View& view, FunctionId function, Instant) {
  index(view, function);
  advance_global(view);
}

void FairQueuing::places_changed(const View& view, FunctionId function, Instant) {
  if (function.value >= where_.size()) return;
  count_cold(view, function);
  if (where_[function.value] == Where::kCandidate) candidates_.forget(function.value);
  if (where_[function.value] == Where::kThrottled) throttled_.forget(function.value);
}

void FairQueuing::health_changed(const View& view, Instant) {
  const size_t known = std::min(virtual_times_.size(), view.flows.size());
  for (uint32_t i = 0; i < known; ++i) {
    const Flow& flow = view.flows[i];
    // Those without GPU are in other hands.
    if (flow.device_memory.count == 0) continue;
    if (flow.has_work()) virtual_times_[i] = std::max(virtual_times_[i], global_);
    index(view, FunctionId{i});
  }
  advance_global(view);
}

template <typename Key>
PlaceOrReason FairQueuing::ask_for_place(const View& view, WaitingOrder<Key>& order,
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
PlaceOrReason FairQueuing::find_place(const View& view, WaitingOrder<Key>& order,
                                      bool idle_devices_only) {
  if (order.note().because != NoPlace::Because::kUnknown) {
    PlaceOrReason known;
    const FunctionId function{order.item()};
    if (view.fleet.places().still_none(order.note(), function, idle_devices_only, known))
      return known;
  }
  return ask_for_place(view, order, idle_devices_only);
}

// Forgets what was noted of flows for which something has changed since.
void FairQueuing::notice_changes(const Fleet& fleet) {
  const uint64_t noticed = std::exchange(changes_noticed_, fleet.changes().count());
  const bool tokens_alone =
      !candidates_.noted().any_warm_without_room() && !throttled_.noted().any_warm_without_room();
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
        candidates_.forget(function);
        throttled_.forget(function);
      });
  if (remembered) return;
  candidates_.forget_all();
  throttled_.forget_all();
}

void FairQueuing::notice_device(const Fleet& fleet, uint32_t device) {
  const auto may_end = [&](const NoPlace& note) {
    return fleet.places().may_end_wait(device, note);
  };
  bool awaited = false;
  for (const IdleSandbox& idle : fleet.idle().on(device)) {
    const uint32_t function = idle.function.value;
    if (function >= where_.size() || where_[function] == Where::kNowhere) continue;
    if (where_[function] == Where::kCandidate) candidates_.forget(function, may_end);
    if (where_[function] == Where::kThrottled) throttled_.forget(function, may_end);
    awaited |= candidates_.noted().contains(function) || throttled_.noted().contains(function);
  }
  may_be_awaited_[device] = awaited ? 1 : 0;
}

// The walks below, cut short where a device with nothing to do takes a sandbox of each of those
// that lie apart: these then wait for time alone, and only the others are asked. False if it cannot
// be told so. `escalates`: who comes after one that waits for a place is asked for idle devices
// only.
template <typename Key>
bool FairQueuing::decide_by_notes(const View& view, WaitingOrder<Key>& order,
                                  bool idle_devices_only, bool escalates,
                                  std::optional<Decision>& decision) {
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
  cold_ += static_cast<size_t>(is_cold) - is_cold_[function.value];
  is_cold_[function.value] = is_cold ? 1 : 0;
}

// Each candidate has an idle sandbox, which may not run without a token. A start elsewhere needs a
// device with nothing to do, and so does a throttled flow where candidates wait for places.
bool FairQueuing::all_wait_for_tokens(const View& view) {
  if (!view.fleet.device_table().all_full() || candidates_.size() < kCountedCandidates)
    return false;
  if (!std::exchange(cold_is_known_, true)) {
    is_cold_.assign(where_.size(), 0);
    cold_ = 0;
    for (uint32_t i = 0; i < where_.size(); ++i) count_cold(view, FunctionId{i});
  }
  return cold_ == 0;
}

Decision FairQueuing::decide(const View& view, Instant) {
  if (all_wait_for_tokens(view)) return Decision::nothing(WaitReason::kNoToken);
  if (!candidates_.noted().empty() || !throttled_.noted().empty()) {
    notice_changes(view.fleet);
  } else {
    view.fleet.changes().tell(false);
    changes_noticed_ = view.fleet.changes().count();
  }
  WaitReason reason = WaitReason::kConcurrencyLimit;
  bool wait_for_place = false;
  if (const auto decision = decide_among_candidates(view, reason, wait_for_place)) return *decision;
  // Work conservation. Flows within T that do not fit now must not be overtaken on the devices that
  // they wait for, or a large one would starve; on a device with nothing to do they would fit if
  // they ever did.
  if (const auto decision = decide_among_throttled(view, wait_for_place)) return *decision;
  if (candidates_.empty() && !throttled_.empty()) reason = WaitReason::kThrottled;
  return Decision::nothing(reason);
}

void FairQueuing::look_ahead(const View&, size_t most, std::vector<FunctionId>& out) {
  for (candidates_.begin(); !candidates_.done(); candidates_.next()) {
    if (most-- == 0) return;
    out.push_back(FunctionId{candidates_.item()});
  }
}

std::optional<Decision> FairQueuing::decide_among_candidates(const View& view, WaitReason& reason,
                                                             bool& wait_for_place) {
  std::optional<Decision> decision;
  if (!candidates_.noted().empty() && decide_by_notes(view, candidates_, false, false, decision)) {
    wait_for_place = candidates_.noted().any_not_at_work();
    if (!candidates_.noted().empty()) {
      reason = candidates_.noted().note(0).because == NoPlace::Because::kAtWork
                   ? WaitReason::kAtWork
                   : WaitReason::kWarmElsewhere;
    }
    return decision;
  }
  size_t without_place = 0;
  size_t waiting_where_warm = 0;
  size_t passed_over = 0;
  for (candidates_.begin(); !candidates_.done(); candidates_.next()) {
    const FunctionId function{candidates_.item()};
    const PlaceOrReason found = find_place(view, candidates_, false);
    if (found.place) {
      const bool good_enough = is_good_enough(view, *found.place);
      if (good_enough || !decision) decision = Decision::to(function, *found.place);
      if (good_enough || passed_over >= kGoodEnoughLookAhead) break;
    } else {
      if (passed_over == 0) reason = found.reason;
      wait_for_place |= found.reason != WaitReason::kAtWork;
      // Many may be warm on one busy device, and say nothing about who fits on the others.
      ++(found.waits_where_warm ? waiting_where_warm : without_place);
      const bool far = without_place > kLookAhead || waiting_where_warm > kWarmLookAhead;
      if (far && (decision || !view.fleet.device_table().any_idle())) {
        wait_for_place = true;  // of those behind nothing is known
        break;
      }
    }
    ++passed_over;
  }
  return decision;
}

std::optional<Decision> FairQueuing::decide_among_throttled(const View& view,
                                                            bool idle_devices_only) {
  std::optional<Decision> decision;
  if (!throttled_.noted().empty() &&
      decide_by_notes(view, throttled_, idle_devices_only, true, decision)) {
    return decision;
  }
  size_t at_work = 0;
  for (throttled_.begin(); !throttled_.done(); throttled_.next()) {
    if (idle_devices_only && !view.fleet.device_table().any_idle()) break;
    const FunctionId function{throttled_.item()};
    const PlaceOrReason found = find_place(view, throttled_, idle_devices_only);
    if (found.place) return Decision::to(function, *found.place);
    // From here on the others only overtake it where it could not run anyway; one that waits for
    // its own sandboxes holds up nobody.
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
  return is_throttled(virtual_time_of(function)) ? WaitReason::kThrottled
                                                 : WaitReason::kBehindOthers;
}

FlowStatus FairQueuing::status(const View& view, FunctionId function, Instant now) const {
  const Flow& flow = view.flow(function);
  const Duration virtual_time = virtual_time_of(function);
  if (!flow.has_work()) {
    return {now < flow.active_until ? FlowState::kActive : FlowState::kInactive, virtual_time};
  }
  return {is_throttled(virtual_time) ? FlowState::kThrottled : FlowState::kActive, virtual_time};
}

Duration FairQueuing::grace(const View& view, FunctionId function) const {
  const Flow& flow = view.flow(function);
  const double expected = to_seconds(flow.interarrival.mean()) * window_.anticipation;
  return expected < to_seconds(window_.longest_anticipation) ? from_seconds(expected)
                                                             : window_.longest_anticipation;
}

void FairQueuing::archive(StateArchive& archive) {
  archive.field(global_);
  archive.field(conserving_);
  archive.list(virtual_times_);
  working_.archive(archive);
  candidates_.archive(archive, [&](Rank& rank) {
    archive.field(rank.rule);
    archive.field(rank.time);
  });
  throttled_.archive(archive);
  if (!archive.reading()) return;
  where_.assign(virtual_times_.size(), Where::kNowhere);
  for (uint32_t i = 0; i < where_.size(); ++i) {
    if (candidates_.contains(i)) where_[i] = Where::kCandidate;
    if (throttled_.contains(i)) where_[i] = Where::kThrottled;
  }
  cold_is_known_ = false;
  // Whoever waits has a virtual time.
  archive.expect(candidates_.size() + throttled_.size() ==
                 where_.size() - static_cast<size_t>(
                                     std::count(where_.begin(), where_.end(), Where::kNowhere)));
}

Duration FairQueuing::virtual_time_of(FunctionId function) const {
  return function.value < virtual_times_.size() ? virtual_times_[function.value] : Duration(0);
}

Duration FairQueuing::charge_of(const Flow& flow) const {
  const Duration cost = window_.uniform_cost.value_or(estimate_of(flow));
  return flow.weight == 1 ? cost : from_seconds(to_seconds(cost) / flow.weight);
}

void FairQueuing::index(const View& view, FunctionId function) {
  const Flow& flow = view.flow(function);
  const Duration virtual_time = virtual_times_[function.value];
  const bool could_run = view.fleet.device_table().could_hold(flow.device_memory);
  if (flow.has_work() && could_run) {
    working_.put(function.value, virtual_time);
  } else {
    working_.erase(function.value);
  }
  const bool may_start = could_run && flow.pending > 0 && flow.in_flight < flow.max_concurrency;
  Where& where = where_[function.value];
  Where to = Where::kNowhere;
  if (may_start) to = is_throttled(virtual_time) ? Where::kThrottled : Where::kCandidate;
  if (where != to) {
    if (where == Where::kCandidate) candidates_.erase(function.value);
    if (where == Where::kThrottled) throttled_.erase(function.value);
    where = to;
  }
  count_cold(view, function);
  if (to == Where::kCandidate) {
    candidates_.put(function.value, rank_of(view, function, virtual_time));
  } else if (to == Where::kThrottled) {
    throttled_.put(function.value, virtual_time);
  }
}

void FairQueuing::rank_again(const View& view, FunctionId function) {
  if (function.value >= where_.size() || where_[function.value] != Where::kCandidate) return;
  candidates_.put(function.value, rank_of(view, function, virtual_times_[function.value]));
}

void FairQueuing::advance_global(const View& view) {
  if (working_.empty() || working_.top_key() <= global_) return;
  global_ = working_.top_key();
  while (!throttled_.empty() && !is_throttled(throttled_.top_key())) {
    const uint32_t function = throttled_.pop();
    where_[function] = Where::kCandidate;
    count_cold(view, FunctionId{function});
    candidates_.put(function, rank_of(view, FunctionId{function}, virtual_times_[function]));
  }
}

}  // namespace lambent::scheduling
