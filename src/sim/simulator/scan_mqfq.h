// ScanMqfq: MQFQ-Sticky written down as plainly as possible, looking at every flow for every
// decision. The reference that the indexed policy is compared with; used by tests only.
#pragma once

#include <algorithm>
#include <tuple>
#include <vector>

#include "decide/scheduling/mqfq_sticky.h"

namespace lambent::simulator {

class ScanMqfq : public scheduling::Policy {
 public:
  using View = scheduling::View;

  explicit ScanMqfq(scheduling::MqfqOptions options) : options_(options), twin_(options) {}

  std::string_view name() const override { return "scan-mqfq"; }
  void flow_changed(const View& view, FunctionId function, Instant) override {
    if (function.value >= times_.size()) times_.resize(function.value + 1);
    while (tenants_.size() <= view.flow(function).tenant_slot) tenants_.emplace_back();
    if (view.flow(function).has_work()) raise(view, function);
    update_global(view);
  }
  void enqueued(const View& view, FunctionId function, Instant) override {
    if (view.flow(function).pending == 1 && view.flow(function).in_flight == 0)
      raise(view, function);
    update_global(view);
  }
  void dispatched(const View& view, FunctionId function, Instant) override {
    charge(view, function, tau_of(view.flow(function)));
  }
  void joined(const View& view, FunctionId function, Duration since_last, Instant) override {
    charge(view, function, std::min(tau_of(view.flow(function)), since_last));
  }
  Duration tau_of(const scheduling::Flow& flow) const {
    return options_.uniform_cost.value_or(
        flow.execution.mean_or(options_.first_estimate.value_or(options_.over_run / 10)));
  }
  void charge(const View& view, FunctionId function, Duration tau) {
    const scheduling::Flow& flow = view.flow(function);
    tau *= flow.gpu_count;
    Tenant& tenant = tenants_[flow.tenant_slot];
    const bool tenant_ahead = is_ahead(view, tenant);
    if (times_[function.value] - tenant.global > options_.over_run || tenant_ahead) ++conserving_;
    times_[function.value] += flow.weight == 1 ? tau : from_seconds(to_seconds(tau) / flow.weight);
    const double weight = view.tenants.weight(flow.tenant_slot);
    if (view.tenants.matter()) {
      tenant.virtual_time += weight == 1 ? tau : from_seconds(to_seconds(tau) / weight);
    }
    update_global(view);
  }
  void finished(const View& view, FunctionId, Instant) override { update_global(view); }
  void health_changed(const View& view, Instant) override {
    for (uint32_t f = 0; f < times_.size(); ++f) {
      if (!is_elsewhere(view.flows[f]) && view.flows[f].has_work()) raise(view, FunctionId{f});
    }
    update_global(view);
  }

  scheduling::Decision decide(const View& view, Instant) override {
    if (view.tenants.matter() && version_ != view.tenants.version()) {
      version_ = view.tenants.version();
      for (uint32_t i = 0; i < tenants_.size(); ++i) tenants_[i].held = view.tenants.hold_all(i);
      update_global(view);
    }
    bool others_wait = false;
    for (const uint32_t slot : tenants_in_order()) {
      if (tenants_[slot].held) continue;
      const bool idle_only = others_wait && is_ahead(view, tenants_[slot]);
      auto [candidates, throttled] = ready_flows(view, slot);
      bool wait_for_place = false;
      if (const auto found = among_candidates(view, candidates, idle_only, wait_for_place)) {
        return *found;
      }
      others_wait |= wait_for_place;
      if (const auto found = among_throttled(view, throttled, idle_only || wait_for_place)) {
        return *found;
      }
    }
    return scheduling::Decision::nothing(scheduling::WaitReason::kNone);
  }
  void look_ahead(const View& view, size_t most, std::vector<FunctionId>& out) override {
    for (const uint32_t slot : tenants_in_order()) {
      if (tenants_[slot].held) continue;
      for (const uint32_t f : ready_flows(view, slot).first) {
        if (out.size() < most) out.push_back(FunctionId{f});
      }
    }
  }
  // The tenant's flows that may start one more, each in its order: those within T, and those
  // beyond.
  std::pair<std::vector<uint32_t>, std::vector<uint32_t>> ready_flows(const View& view,
                                                                      uint32_t slot) const {
    std::vector<uint32_t> candidates;
    std::vector<uint32_t> throttled;
    for (uint32_t f = 0; f < view.flows.size() && f < times_.size(); ++f) {
      const scheduling::Flow& flow = view.flows[f];
      if (flow.tenant_slot != slot) continue;
      if (is_elsewhere(flow) || !some_device_could_hold(view, f)) continue;
      if (flow.pending == 0 || flow.in_flight >= flow.max_concurrency) continue;
      const bool is_throttled = times_[f] - tenants_[slot].global > options_.over_run;
      (is_throttled ? throttled : candidates).push_back(f);
    }
    std::sort(candidates.begin(), candidates.end(),
              [&](uint32_t a, uint32_t b) { return order_of(view, a) < order_of(view, b); });
    std::sort(throttled.begin(), throttled.end(), [&](uint32_t a, uint32_t b) {
      return std::tuple(times_[a], a) < std::tuple(times_[b], b);
    });
    return {candidates, throttled};
  }

  scheduling::WaitReason why_waiting(const View& view, FunctionId function) const override {
    const scheduling::Flow& flow = view.flow(function);
    if (flow.in_flight >= flow.max_concurrency) return scheduling::WaitReason::kConcurrencyLimit;
    // Who asks is woken when time by itself changes the answer.
    return view.fleet.places().find(function, flow, false).reason;
  }
  scheduling::FlowStatus status(const View& view, FunctionId function, Instant now) const override {
    using scheduling::FlowState;
    const scheduling::Flow& flow = view.flow(function);
    const Duration time = times_[function.value];
    const Tenant& tenant = tenants_[flow.tenant_slot];
    if (!flow.is_active(now)) return {FlowState::kInactive, time, tenant.global};
    const bool ahead = time - tenant.global > options_.over_run ||
                       tenant.virtual_time - tenants_global_ > options_.over_run;
    const bool throttled = flow.has_work() && ahead;
    return {throttled ? FlowState::kThrottled : FlowState::kActive, time, tenant.global};
  }
  Duration grace(const View& view, FunctionId function) const override {
    return twin_.grace(view, function);
  }
  Duration global_virtual_time() const override {
    return tenants_.size() > 1 ? tenants_global_ : tenants_[0].global;
  }
  uint64_t conserving_dispatches() const override { return conserving_; }
  void archive(StateArchive& archive) override {
    archive.field(tenants_[0].global);
    archive.field(conserving_);
    archive.list(times_);
  }

 protected:
  using Order = std::tuple<int64_t, int64_t, int64_t, Duration, uint32_t>;
  virtual Order order_of(const View& view, uint32_t f) const {
    const scheduling::Flow& flow = view.flows[f];
    const int64_t length = flow.pending;
    const int64_t in_flight = int64_t{flow.in_flight} * 2 + (flow.sheds ? 1 : 0);
    if (options_.order == scheduling::CandidateOrder::kInFlightFirst) {
      return {0, in_flight, -length, times_[f], f};
    }
    return {options_.duplicates_last && flow.in_flight > 0, -length, in_flight, times_[f], f};
  }

 private:
  // Functions without GPU are ordered by another policy.
  static bool is_elsewhere(const scheduling::Flow& flow) { return flow.device_memory.count == 0; }
  static bool some_device_could_hold(const View& view, uint32_t f) {
    const auto& devices = view.fleet.devices();
    const auto could =
        std::count_if(devices.begin(), devices.end(), [&](const scheduling::Device& device) {
          return device.healthy && view.flows[f].device_memory <= device.options.memory;
        });
    return could >= view.flows[f].gpu_count;
  }
  // One tenant: its virtual time, and the global one of its flows.
  struct Tenant {
    Duration virtual_time{};
    Duration global{};
    bool works = false;
    bool held = false;
  };
  void raise(const View& view, FunctionId function) {
    const Tenant& tenant = tenants_[view.flow(function).tenant_slot];
    times_[function.value] = std::max(times_[function.value], tenant.global);
  }
  bool is_ahead(const View& view, const Tenant& tenant) const {
    return view.tenants.matter() && tenant.virtual_time - tenants_global_ > options_.over_run;
  }
  void update_global(const View& view) {
    std::vector<Duration> least(tenants_.size(), Duration::max());
    for (uint32_t f = 0; f < view.flows.size() && f < times_.size(); ++f) {
      const scheduling::Flow& flow = view.flows[f];
      if (is_elsewhere(flow) || !some_device_could_hold(view, f) || !flow.has_work()) continue;
      least[flow.tenant_slot] = std::min(least[flow.tenant_slot], times_[f]);
    }
    for (size_t i = 0; i < tenants_.size(); ++i) {
      Tenant& tenant = tenants_[i];
      const bool has_work = least[i] != Duration::max();
      if (has_work) tenant.global = std::max(tenant.global, least[i]);
      const bool works = has_work && !tenant.held;
      if (works && !tenant.works)
        tenant.virtual_time = std::max(tenant.virtual_time, tenants_global_);
      tenant.works = works;
    }
    Duration least_tenant = Duration::max();
    for (const Tenant& tenant : tenants_) {
      if (tenant.works) least_tenant = std::min(least_tenant, tenant.virtual_time);
    }
    if (least_tenant != Duration::max()) {
      tenants_global_ = std::max(tenants_global_, least_tenant);
    }
  }
  std::vector<uint32_t> tenants_in_order() const {
    std::vector<uint32_t> slots(tenants_.size());
    for (uint32_t i = 0; i < slots.size(); ++i) slots[i] = i;
    std::stable_sort(slots.begin(), slots.end(), [&](uint32_t a, uint32_t b) {
      return tenants_[a].virtual_time < tenants_[b].virtual_time;
    });
    return slots;
  }
  // With memory_first the first whose memory is there; else the first that fits. A decision looks
  // past so many and no more while every device has something to do, or one that fits was found.
  static constexpr size_t kLookAhead = 16;
  static constexpr size_t kWarmLookAhead = 256;
  std::optional<scheduling::Decision> among_candidates(const View& view,
                                                       const std::vector<uint32_t>& order,
                                                       bool idle_only, bool& wait_for_place) {
    std::optional<scheduling::Decision> first;
    size_t without_place = 0;
    size_t where_warm = 0;
    for (const uint32_t f : order) {
      if (idle_only && !view.fleet.device_table().any_idle()) break;
      if (view.hold_of(FunctionId{f}) != scheduling::WaitReason::kNone) continue;
      const auto found = view.fleet.places().find(FunctionId{f}, view.flows[f], idle_only);
      if (found.place) {
        if (!first) first = scheduling::Decision::to(FunctionId{f}, *found.place);
        if (!options_.memory_first) return first;
        if (has_memory(view, *found.place)) {
          return scheduling::Decision::to(FunctionId{f}, *found.place);
        }
        continue;
      }
      const bool at_work = found.reason == scheduling::WaitReason::kAtWork;
      if (!at_work) wait_for_place = true;
      ++(at_work || waits_for_token_where_warm(view, f) ? where_warm : without_place);
      const bool far = without_place > kLookAhead || where_warm > kWarmLookAhead;
      if (far && (first || !view.fleet.device_table().any_idle())) {
        wait_for_place = true;
        break;
      }
    }
    return first;
  }
  static bool has_memory(const View& view, const scheduling::Place& place) {
    if (place.warm == scheduling::kNoSandbox) return false;
    const auto memory_state = view.fleet.sandbox(place.warm).memory_state;
    return memory_state == scheduling::MemoryState::kIn ||
           memory_state == scheduling::MemoryState::kMovingIn;
  }
  // Of one that has no place now.
  static bool waits_for_token_where_warm(const View& view, uint32_t f) {
    bool warm = false;
    for (const scheduling::SandboxSlot slot : view.fleet.idle().of(FunctionId{f})) {
      const scheduling::Device& device = view.fleet.devices()[view.fleet.sandbox(slot).device];
      if (!device.healthy) continue;
      if (device.has_token()) return false;  // it is memory or a context that it lacks
      warm = true;
    }
    return warm;
  }
  static std::optional<scheduling::Decision> among_throttled(const View& view,
                                                             const std::vector<uint32_t>& order,
                                                             bool idle_only) {
    size_t at_work = 0;
    for (const uint32_t f : order) {
      if (view.hold_of(FunctionId{f}) != scheduling::WaitReason::kNone) continue;
      const auto found = view.fleet.places().find(FunctionId{f}, view.flows[f], idle_only);
      if (found.place) return scheduling::Decision::to(FunctionId{f}, *found.place);
      const bool waits_for_its_own = found.reason == scheduling::WaitReason::kAtWork;
      if (!waits_for_its_own || ++at_work > kWarmLookAhead) idle_only = true;
    }
    return std::nullopt;
  }

  scheduling::MqfqOptions options_;
  scheduling::MqfqStickyPolicy twin_;  // only for the formula of the grace period
  std::vector<Tenant> tenants_ = std::vector<Tenant>(1);  // by the slot of the tenant
  Duration tenants_global_{};
  uint64_t version_ = 0;  // of what quotas hold, as of the last decision
  uint64_t conserving_ = 0;
  std::vector<Duration> times_;
};

}  // namespace lambent::simulator
