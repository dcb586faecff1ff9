#include "decide/pipeline/lane_cost.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "decide/pipeline/hand_over.h"
#include "decide/pipeline/limits.h"

namespace lambent::pipeline {
namespace {

const ComponentProfile& profile_of(const PipelineFunction& function, size_t component) {
  static const ComponentProfile kNothing;
  const auto& profiles = function.profile.components;
  return component < profiles.size() ? profiles[component] : kNothing;
}

Duration scaled(Duration duration, double factor) {
  return Duration(std::llround(static_cast<double>(duration.count()) * factor));
}

Duration transfer_time(Bytes bytes, double gb_per_s) {
  if (!(gb_per_s > 0)) return Duration{};
  const double most = static_cast<double>(limits::kTime.count());
  return Duration(std::llround(std::min(static_cast<double>(bytes.count) / gb_per_s, most)));
}

std::optional<Duration> component_time(const PipelineFunction& function, size_t component,
                                       const SliceShape& shape) {
  const ComponentProfile& profile = profile_of(function, component);
  const double probability = function.dag.components[component].optional ? profile.probability : 1;
  if (probability == 0) return Duration{};  // it never ran, so that nothing was timed
  const auto time = time_on(profile, shape, function.shapes);
  if (!time) return std::nullopt;
  return scaled(*time, probability);
}

bool has(const Lane& lane, size_t component) {
  return std::find(lane.components.begin(), lane.components.end(), component) !=
         lane.components.end();
}

// For each component the last one of the lane that needs its output; itself, if none does; beyond
// all of them, if the lane makes it for the function's answer and so keeps it to the end.
std::vector<size_t> last_needs(const Dag& dag, const Lane& lane) {
  std::vector<size_t> last(dag.components.size());
  for (size_t i = 0; i < last.size(); ++i) last[i] = i;
  for (const size_t component : lane.components) {
    for (const Source& source : dag.components[component].inputs) {
      if (source.kind == Source::Kind::kComponent) last[source.index] = component;
    }
  }
  for (const size_t output : dag.outputs) {
    if (has(lane, output)) last[output] = last.size();
  }
  return last;
}

// The outputs of the function that lie in a lane until it has answered: the gathering lane, which
// makes one of them, has those of other lanes as well. Which it is depends on the partition, so
// that each that may be it is judged as if it were.
std::vector<size_t> gathered_by(const PipelineFunction& function, const Lane& lane) {
  const std::vector<size_t>& outputs = function.dag.outputs;
  const bool makes_one =
      std::any_of(outputs.begin(), outputs.end(), [&](size_t output) { return has(lane, output); });
  return makes_one ? outputs : std::vector<size_t>();
}

// What another job holds on the device while one is computed: what was received for what runs
// first; or what runs last has made and is on its way out, and what the answer is made of. Inputs
// of the function are in no profile.
Bytes beside_of(const PipelineFunction& function, const Lane& lane) {
  Bytes coming;
  for (const Source& source : function.dag.components[lane.components.front()].inputs) {
    const bool comes = source.kind == Source::Kind::kComponent && !has(lane, source.index);
    if (comes) coming += profile_of(function, source.index).output;
  }
  // All are part of what was measured of the component that they belong to.
  const auto works_with = [&](size_t component) {
    const ComponentProfile& profile = profile_of(function, component);
    return profile.memory - profile.weights;
  };
  std::vector<size_t> left = gathered_by(function, lane);
  const size_t last = lane.components.back();
  if (std::find(left.begin(), left.end(), last) == left.end()) left.push_back(last);
  Bytes going;
  for (const size_t component : left) {
    going += std::min(profile_of(function, component).output, works_with(component));
  }
  return std::max(std::min(coming, works_with(lane.components.front())), going);
}

// `beside`: what other jobs hold there, of one request each.
Bytes memory_beside(const PipelineFunction& function, const Lane& lane, Bytes beside) {
  const std::vector<size_t> last = last_needs(function.dag, lane);
  Bytes weights, most;
  bool measured = true;
  for (const size_t component : lane.components) {
    const ComponentProfile& profile = profile_of(function, component);
    measured = measured && !(profile == ComponentProfile());
    weights += profile.weights;
    // Its own inputs and output are in what was measured of it; other values pass it by.
    Bytes waiting;
    for (size_t other = 0; other < component; ++other) {
      if (last[other] > component) waiting += profile_of(function, other).output;
    }
    most = std::max(most, profile.memory - profile.weights + waiting);
  }
  // Nothing of this job is computed any more when other lanes' outputs come.
  Bytes gathered;
  bool all_made = true;
  for (const size_t output : gathered_by(function, lane)) {
    all_made = all_made && has(lane, output);
    gathered += profile_of(function, output).output;
  }
  most += beside;
  if (!all_made) most = std::max(most, gathered);
  const Bytes needed = function.profile.context + weights + most * function.most_batch;
  return measured ? needed : std::max(needed, function.declared_memory);
}

LaneTimes times_on(const PipelineFunction& function, const Partition& partition,
                   std::span<const SliceShape* const> shapes, const TransferCosts& costs) {
  const std::vector<const Lane*> lanes = lanes_of(partition);
  std::vector<Duration> work(lanes.size());
  for (size_t i = 0; i < lanes.size(); ++i) {
    work[i] = expected_time(function, *lanes[i], *shapes[i]);
  }
  return lane_times(function, partition, hand_overs(function.dag, partition), work, costs);
}

}  // namespace

Bytes memory_of(const PipelineFunction& function, const Lane& lane) {
  return memory_beside(function, lane, beside_of(function, lane));
}

Bytes least_memory_of(const PipelineFunction& function, const Lane& lane) {
  return memory_beside(function, lane, Bytes(0));
}

std::optional<Duration> time_of(const PipelineFunction& function, const Lane& lane,
                                const SliceShape& shape) {
  Duration sum{};
  for (const size_t component : lane.components) {
    const auto time = component_time(function, component, shape);
    if (!time) return std::nullopt;
    sum += *time;
  }
  return sum;
}

Duration expected_time(const PipelineFunction& function, const Lane& lane,
                       const SliceShape& shape) {
  if (const auto time = time_of(function, lane, shape)) return *time;
  Duration all{};
  size_t measured = 0;
  for (size_t i = 0; i < function.dag.components.size(); ++i) {
    const auto time = component_time(function, i, shape);
    all += time.value_or(Duration{});
    measured += time.has_value();
  }
  const Duration other = measured ? all / static_cast<int64_t>(measured) : kAssumedTime;
  Duration sum{};
  for (const size_t component : lane.components) {
    sum += component_time(function, component, shape).value_or(other);
  }
  return sum;
}

LaneTimes lane_times(const PipelineFunction& function, const Partition& partition,
                     std::span<const HandOver> crossing, std::span<const Duration> work,
                     const TransferCosts& costs) {
  const std::vector<const Lane*> lanes = lanes_of(partition);
  const auto copy_of = [&](const HandOver& each) {
    return transfer_time(profile_of(function, each.component).output, costs.copies_gb_per_s);
  };
  LaneTimes times;
  times.busy.assign(work.begin(), work.end());
  for (const HandOver& each : crossing) {
    times.busy[each.from] += copy_of(each);
    times.busy[each.to] += copy_of(each) + costs.handover;
  }
  // Copies of one job go beside the work on another, but no more jobs than that are in hand.
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    times.busy[lane] = std::max(work[lane], times.busy[lane] / static_cast<int64_t>(kJobsInHand));
  }
  // Lanes in their order: what one needs comes from those before it. Only the gathering lane takes
  // results of lanes beside it, when its own work is done.
  std::vector<Duration> finished(lanes.size());
  auto next = crossing.begin();
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    Duration ready{}, gathered{};
    for (; next != crossing.end() && next->to == lane; ++next) {
      const Duration there = finished[next->from] + 2 * copy_of(*next) + costs.handover;
      const auto& components = lanes[lane]->components;
      const bool needed_here = std::any_of(components.begin(), components.end(), [&](size_t i) {
        const auto& inputs = function.dag.components[i].inputs;
        return std::find(inputs.begin(), inputs.end(),
                         Source{Source::Kind::kComponent, next->component}) != inputs.end();
      });
      Duration& until = needed_here ? ready : gathered;
      until = std::max(until, there);
    }
    finished[lane] = std::max(ready + work[lane], gathered);
    times.latency = std::max(times.latency, finished[lane]);
  }
  return times;
}

std::vector<Duration> busy_of(const PipelineFunction& function, const Partition& partition,
                              std::span<const SliceShape* const> shapes,
                              const TransferCosts& costs) {
  return times_on(function, partition, shapes, costs).busy;
}

Timing timing_of(const PipelineFunction& function, const Partition& partition,
                 std::span<const SliceShape* const> shapes, const TransferCosts& costs) {
  const LaneTimes times = times_on(function, partition, shapes, costs);
  return {times.latency, *std::max_element(times.busy.begin(), times.busy.end())};
}

Duration load_time(const PipelineFunction& function, const Placement& placement,
                   std::span<const Slice* const> slices, const TransferCosts& costs) {
  const std::vector<const Lane*> lanes = lanes_of(placement.partition);
  const std::vector<Process> processes = processes_of(placement);
  std::map<uint32_t, Bytes> by_gpu;
  for (size_t i = 0; i < processes.size(); ++i) {
    for (const size_t component : lanes[processes[i].lane]->components) {
      by_gpu[slices[i]->gpu] += profile_of(function, component).weights;
    }
  }
  Duration longest{};
  for (const auto& [gpu, weights] : by_gpu) {
    longest = std::max(longest, transfer_time(weights, costs.load_gb_per_s));
  }
  return longest;
}

}  // namespace lambent::pipeline
