#include "bench/paper_fluidfaas/plan.h"

#include <algorithm>

namespace lambent::paper_fluidfaas {

Result<Plan> plan_for(bool quick, const std::string& traces) {
  Plan plan;
  plan.quick = quick;
  plan.traces = traces;
  plan.seeds = quick ? 1 : 3;
  plan.layouts =
      quick ? std::vector<std::string>{"P1"} : std::vector<std::string>{"P1", "P2", "Hybrid"};
  plan.sizes = {std::begin(kSizes), std::end(kSizes)};
  plan.factors =
      quick ? std::vector<double>{1} : std::vector<double>{0.25, 0.5, 0.75, 1, 1.25, 1.75};
  if (quick) {
    plan.seconds_of_small = 4;
    plan.seconds_of_medium = 10;
    plan.seconds_of_large = 15;
    plan.warm_s = 15;
  }
  if (!traces.empty()) {
    for (const Size size : kSizes) {
      ASSIGN_OR_RETURN(plan.loads[size], read_load(traces, size));
    }
  }
  return plan;
}

Setting crowded_setting(const Plan& plan, uint64_t seed) {
  static const Layout kTwo{"2 x P1", {2, layout_named("P1").gpus.front()}};
  Setting setting;
  setting.layout = &kTwo;
  setting.nodes = 1;
  setting.size = Size::kSmall;
  setting.functions = CrowdedPlan::kFunctions;
  setting.constants = plan.constants;
  setting.seed = seed;
  setting.warm_s = 60;
  setting.drain_s = 60;
  return setting;
}

Prepared prepare(const Plan& plan, const std::string& layout, Size size, const Point& point,
                 uint64_t seed) {
  Prepared prepared;
  Setting& setting = prepared.setting;
  setting.layout = &layout_named(layout);
  setting.size = size;
  setting.constants = plan.constants;
  setting.seed = seed;
  setting.warm_s = plan.warm_s;
  setting.drain_s = plan.quick ? 10 : 30;
  const double length_s = size == Size::kSmall    ? plan.seconds_of_small
                          : size == Size::kMedium ? plan.seconds_of_medium
                                                  : plan.seconds_of_large;
  const size_t count = applications(size, plan.constants, pipeline::RankRule::kBalance).size();
  if (count == 0) return prepared;
  // Each seed has a part of its own of a trace.
  Load load;
  const auto found = plan.loads.find(size);
  if (found == plan.loads.end()) {
    load = generated_load(size, seed, length_s);
  } else {
    load.name = found->second.name;
    const Instant begin(from_seconds(static_cast<double>(seed - 1) * 90));
    for (const auto& arrival : found->second.arrivals) {
      if (arrival.at >= begin)
        load.arrivals.push_back({Instant(arrival.at - begin), arrival.function});
    }
  }
  const Load part = scaled(load, 1, length_s, count, seed);
  const std::vector<double> mix = mix_of(part, count);
  double rate = 0;
  for (const double one : mix) rate += one;
  if (rate <= 0) return prepared;
  prepared.bounds.whole = bound_of(setting, mix, true);
  prepared.bounds.placed = prepared.bounds.whole > 0 ? placed_bound_of(setting, mix) : 0;
  prepared.bounds.replicated =
      placed_bound_of(setting, mix, slice_scheduling::SloPolicyOptions{}.most_slices);
  prepared.bounds.cut = bound_of(setting, mix, false);
  const double of = point.of == Point::Of::kTrace   ? rate
                    : point.of == Point::Of::kWhole ? prepared.bounds.whole
                                                    : prepared.bounds.cut;
  prepared.bounds.times_trace = point.factor * of / rate;
  prepared.load = scaled(load, prepared.bounds.times_trace, length_s, count, seed);
  return prepared;
}

}  // namespace lambent::paper_fluidfaas
