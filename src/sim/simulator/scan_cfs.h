// ScanCfs: CFS-Affinity written as a plain scan of all flows, as slow as it is easy to read. Used
// by property tests, which expect the indexed one to decide exactly so.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "decide/scheduling/cfs_affinity.h"

namespace lambent::simulator {

class ScanCfs final : public scheduling::Policy {
 public:
  explicit ScanCfs(scheduling::CfsOptions options) : options_(options) {}

  std::string_view name() const override { return "scan-cfs"; }

  void flow_changed(const scheduling::View& view, FunctionId f, Instant) override {
    settle(view, f);
    if (view.flow(f).has_work()) runtime_[f] = std::max(runtime_[f], least_);
    advance(view);
  }
  void enqueued(const scheduling::View& view, FunctionId f, Instant) override {
    const scheduling::Flow& flow = view.flow(f);
    if (flow.pending == 1 && flow.in_flight == 0) runtime_[f] = std::max(runtime_[f], least_);
    advance(view);
  }
  void dispatched(const scheduling::View& view, FunctionId f, Instant) override {
    const Duration charge = weighted(view, f, view.flow(f).execution.mean_or(Duration(0)));
    runtime_[f] += charge;
    charged_[f] += charge;
    ++running_[f];
    advance(view);
  }
  void finished(const scheduling::View& view, FunctionId f, Instant) override {
    settle(view, f);
    advance(view);
  }

  scheduling::Decision decide(const scheduling::View& view, Instant) override {
    const auto& devices = view.fleet.devices();
    std::optional<std::tuple<Duration, unsigned, uint32_t>> best;
    for (uint32_t device = 0; device < devices.size(); ++device) {
      if (!view.fleet.device_table().room().is_open(devices[device])) continue;
      const auto order = order_on(view, device);
      if (order.empty()) continue;
      const std::tuple rank{std::get<0>(*order.begin()),
                            devices[device].tokens_held + devices[device].start_slots_held, device};
      if (!best || rank < *best) best = rank;
    }
    if (!best) return scheduling::Decision::nothing(scheduling::WaitReason::kConcurrencyLimit);
    std::vector<uint32_t> tried{std::get<2>(*best)};
    for (uint32_t device = 0; device < devices.size(); ++device) {
      if (device != tried[0] && view.fleet.device_table().room().is_open(devices[device]))
        tried.push_back(device);
    }
    for (const uint32_t device : tried) {
      size_t looked_at = 0;
      for (const auto& [time, far, f] : order_on(view, device)) {
        const auto found = view.fleet.places().find_on(device, f, view.flow(f));
        if (found.place) return scheduling::Decision::to(f, *found.place);
        if (++looked_at > kLookAhead && !devices[device].is_idle()) break;
      }
    }
    return scheduling::Decision::nothing(scheduling::WaitReason::kNoToken);
  }

  // As the indexed policy looks ahead, so that memory is fetched ahead for the same flows.
  void look_ahead(const scheduling::View& view, size_t most,
                  std::vector<FunctionId>& out) override {
    std::set<std::tuple<Duration, FunctionId>> order;
    for (const FunctionId f : waiting(view)) order.emplace(runtime_[f] + penalty(view, f), f);
    for (const auto& [time, f] : order) {
      if (most-- == 0) return;
      out.push_back(f);
    }
  }
  scheduling::WaitReason why_waiting(const scheduling::View&, FunctionId) const override {
    return scheduling::WaitReason::kNone;
  }
  scheduling::FlowStatus status(const scheduling::View& view, FunctionId f,
                                Instant) const override {
    const auto found = runtime_.find(f);
    return {
        view.flow(f).has_work() ? scheduling::FlowState::kActive : scheduling::FlowState::kInactive,
        found == runtime_.end() ? Duration(0) : found->second};
  }
  Duration global_virtual_time() const override { return least_; }
  void archive(StateArchive&) override {}

 private:
  static constexpr size_t kLookAhead = 16;

  static Duration weighted(const scheduling::View& view, FunctionId f, Duration time) {
    const double weight = view.flow(f).weight;
    return weight == 1 ? time : from_seconds(to_seconds(time) / weight);
  }
  Duration penalty(const scheduling::View& view, FunctionId f) const {
    const scheduling::Flow& flow = view.flow(f);
    return from_seconds(options_.penalty * to_seconds(flow.execution.mean_or(Duration(0))) /
                        flow.weight);
  }
  static std::vector<FunctionId> waiting(const scheduling::View& view) {
    std::vector<FunctionId> all;
    for (uint32_t f = 0; f < view.flows.size(); ++f) {
      const scheduling::Flow& flow = view.flows[f];
      // Those without GPU have a policy of their own.
      if (flow.device_memory.count == 0) continue;
      if (flow.pending > 0 && flow.in_flight < flow.max_concurrency) all.push_back(FunctionId{f});
    }
    return all;
  }
  static bool is_near(const scheduling::View& view, FunctionId f, uint32_t device) {
    const auto idle = view.fleet.idle().of(f);
    return std::any_of(idle.begin(), idle.end(), [&](scheduling::SandboxSlot slot) {
      const scheduling::Sandbox& sandbox = view.fleet.sandbox(slot);
      return sandbox.device == device &&
             (sandbox.memory_state == scheduling::MemoryState::kIn ||
              sandbox.memory_state == scheduling::MemoryState::kMovingIn);
    });
  }
  std::set<std::tuple<Duration, bool, FunctionId>> order_on(const scheduling::View& view,
                                                            uint32_t device) {
    std::set<std::tuple<Duration, bool, FunctionId>> order;
    for (const FunctionId f : waiting(view)) {
      const bool near = is_near(view, f, device);
      order.emplace(runtime_[f] + (near ? Duration(0) : penalty(view, f)), !near, f);
    }
    return order;
  }
  void settle(const scheduling::View& view, FunctionId f) {
    while (running_[f] > view.flow(f).in_flight) {
      const Duration share = charged_[f] / running_[f];
      charged_[f] -= share;
      runtime_[f] -= share;
      --running_[f];
    }
    const Duration total = view.flow(f).execution.total();
    runtime_[f] += weighted(view, f, total - executed_[f]);
    executed_[f] = total;
  }
  void advance(const scheduling::View& view) {
    std::optional<Duration> least;
    for (uint32_t f = 0; f < view.flows.size(); ++f) {
      const scheduling::Flow& flow = view.flows[f];
      if (flow.device_memory.count == 0 || !flow.has_work()) continue;
      const Duration runtime = runtime_[FunctionId{f}];
      if (!least || runtime < *least) least = runtime;
    }
    if (least) least_ = std::max(least_, *least);
  }

  scheduling::CfsOptions options_;
  Duration least_{};
  std::map<FunctionId, Duration> runtime_, charged_, executed_;
  std::map<FunctionId, unsigned> running_;
};

}  // namespace lambent::simulator
