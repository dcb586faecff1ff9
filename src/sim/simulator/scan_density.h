// ScanDensity: the order of Density written as plain sums over all sandboxes, on top of ScanMqfq's
// fair queuing. Used by property tests, which expect the indexed policy to decide exactly so.
#pragma once

#include <algorithm>

#include "decide/scheduling/density.h"
#include "sim/simulator/scan_mqfq.h"

namespace lambent::simulator {

class ScanDensity final : public ScanMqfq {
 public:
  ScanDensity(const scheduling::MqfqOptions& fair_queuing, scheduling::DensityOptions options)
      : ScanMqfq(fair_queuing),
        first_execution_(fair_queuing.first_estimate.value_or(fair_queuing.over_run / 10)),
        options_(options) {}

  std::string_view name() const override { return "scan-density"; }

 private:
  Duration set_up(const View& view, uint32_t f) const {
    const scheduling::Flow& flow = view.flows[f];
    Duration least = flow.cold_start.mean_or(options_.first_start);
    bool any = false;
    for (const scheduling::SandboxSlot slot : view.fleet.all()) {
      const scheduling::Sandbox& sandbox = view.fleet.sandbox(slot);
      if (sandbox.function.value != f) continue;
      if (sandbox.state != scheduling::SandboxState::kIdle) continue;
      if (!view.fleet.devices()[sandbox.device].healthy) continue;
      Duration move = from_seconds(static_cast<double>(sandbox.needed().count) /
                                   options_.link_bytes_per_second);
      if (sandbox.memory_state == scheduling::MemoryState::kIn) move = Duration(0);
      if (sandbox.memory_state == scheduling::MemoryState::kMovingIn) move = Duration(0);
      least = any ? std::min(least, move) : move;
      any = true;
    }
    return least;
  }

  Order order_of(const View& view, uint32_t f) const override {
    const scheduling::Flow& flow = view.flows[f];
    Duration cost = (flow.execution.mean_or(first_execution_) + set_up(view, f) / flow.pending) *
                    flow.gpu_count;
    if (flow.weight != 1) cost = from_seconds(to_seconds(cost) / flow.weight);
    // log2(cost): how often it can be halved, and how far it is from there to the next power of
    // two.
    int64_t halved = 0;
    while ((cost.count() >> (halved + 1)) > 0) ++halved;
    const int64_t power = int64_t{1} << halved;
    const auto beyond = static_cast<__int128>(cost.count() - power) * 65536 / power;
    const auto grace_period = static_cast<__int128>(options_.grace_period.count());
    const auto later = grace_period * (static_cast<__int128>(halved) * 65536 + beyond) / 65536;
    const Instant due = flow.oldest_since + Duration(static_cast<int64_t>(later));
    return {(flow.in_flight > 0 ? 2 : 0) + (flow.sheds ? 1 : 0), due.time_since_epoch().count(), 0,
            Duration(0), f};
  }

  Duration first_execution_;
  scheduling::DensityOptions options_;
};

}  // namespace lambent::simulator
