#include "decide/pipeline/stage_process_cost.h"

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
                                       const SliceShape& shape, size_t requests = 1) {
  const ComponentProfile& profile = profile_of(function, component);
  const double probability = function.dag.components[component].optional ? profile.probability : 1;
  if (probability == 0) return Duration{};  // it never ran, so that nothing was timed
  const auto time = time_on(profile, shape, function.shapes);
  if (!time) return std::nullopt;
  return scaled(*time, probability * batch_factor(profile, shape, function.shapes, requests));
}

bool has(const StageProcess& stage_process, size_t component) {
  return std::find(stage_process.components.begin(), stage_process.components.end(), component) !=
         stage_process.components.end();
}

// For each component the last one of the stage process that needs its output; itself, if none does;
// beyond all of them, if the stage process makes it for the function's answer and so keeps it to
// the end.
std::vector<size_t> last_needs(const Dag& dag, const StageProcess& stage_process) {
  std::vector<size_t> last(dag.components.size());
  for (size_t i = 0; i < last.size(); ++i) last[i] = i;
  for (const size_t component : stage_process.components) {
    for (const Source& source : dag.components[component].inputs) {
      if (source.kind == Source::Kind::kComponent) last[source.index] = component;
    }
  }
  for (const size_t output : dag.outputs) {
    if (has(stage_process, output)) last[output] = last.size();
  }
  return last;
}

// The outputs of the function that lie in a stage process until it has answered: the gathering
// stage process, which makes one of them, has those of other stage processes as well. Which it is
// depends on the partition, so that each that may be it is judged as if it were.
std::vector<size_t> gathered_by(const PipelineFunction& function,
                                const StageProcess& stage_process) {
  const std::vector<size_t>& outputs = function.dag.outputs;
  const bool makes_one = std::any_of(outputs.begin(), outputs.end(),
                                     [&](size_t output) { return has(stage_process, output); });
  return makes_one ? outputs : std::vector<size_t>();
}

// What another job holds on the device while one is computed: what was received for what runs
// first; or what runs last has made and is on its way out, and what the answer is made of. Inputs
// of the function are in no profile.
Bytes beside_of(const PipelineFunction& function, const StageProcess& stage_process) {
  Bytes coming;
  for (const Source& source : function.dag.components[stage_process.components.front()].inputs) {
    const bool comes = source.kind == Source::Kind::kComponent && !has(stage_process, source.index);
    if (comes) coming += profile_of(function, source.index).output;
  }
  // All are part of what was measured of the component that they belong to.
  const auto works_with = [&](size_t component) {
    const ComponentProfile& profile = profile_of(function, component);
    return profile.memory - profile.weights;
  };
  std::vector<size_t> left = gathered_by(function, stage_process);
  const size_t last = stage_process.components.back();
  if (std::find(left.begin(), left.end(), last) == left.end()) left.push_back(last);
  Bytes going;
  for (const size_t component : left) {
    going += std::min(profile_of(function, component).output, works_with(component));
  }
  return std::max(std::min(coming, works_with(stage_process.components.front())), going);
}

// `beside`: what other jobs hold there, of one request each.
Bytes memory_beside(const PipelineFunction& function, const StageProcess& stage_process,
                    Bytes beside) {
  const std::vector<size_t> last = last_needs(function.dag, stage_process);
  Bytes weights, most;
  bool measured = true;
  for (const size_t component : stage_process.components) {
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
  // Nothing of this job is computed any more when other stage processes' outputs come.
  Bytes gathered;
  bool all_made = true;
  for (const size_t output : gathered_by(function, stage_process)) {
    all_made = all_made && has(stage_process, output);
    gathered += profile_of(function, output).output;
  }
  most += beside;
  if (!all_made) most = std::max(most, gathered);
  const Bytes needed = function.profile.context + weights + most * function.most_batch;
  return measured ? needed : std::max(needed, function.declared_memory);
}

StageProcessTimes times_on(const PipelineFunction& function, const Partition& partition,
                           std::span<const SliceShape* const> shapes, const TransferCosts& costs,
                           size_t requests = 1) {
  const std::vector<const StageProcess*> stage_processes = stage_processes_of(partition);
  std::vector<Duration> work(stage_processes.size());
  for (size_t i = 0; i < stage_processes.size(); ++i) {
    work[i] = expected_time(function, *stage_processes[i], *shapes[i], requests);
  }
  return stage_process_times(function, partition, hand_overs(function.dag, partition), work, costs,
                             requests);
}

}  // namespace

Bytes memory_of(const PipelineFunction& function, const StageProcess& stage_process) {
  return memory_beside(function, stage_process, beside_of(function, stage_process));
}

Bytes least_memory_of(const PipelineFunction& function, const StageProcess& stage_process) {
  return memory_beside(function, stage_process, Bytes(0));
}

std::optional<Duration> time_of(const PipelineFunction& function, const StageProcess& stage_process,
                                const SliceShape& shape) {
  Duration sum{};
  for (const size_t component : stage_process.components) {
    const auto time = component_time(function, component, shape);
    if (!time) return std::nullopt;
    sum += *time;
  }
  return sum;
}

Duration expected_time(const PipelineFunction& function, const StageProcess& stage_process,
                       const SliceShape& shape, size_t requests) {
  Duration known{};
  const bool all_measured = std::all_of(
      stage_process.components.begin(), stage_process.components.end(), [&](size_t component) {
        const auto time = component_time(function, component, shape, requests);
        known += time.value_or(Duration{});
        return time.has_value();
      });
  if (all_measured) return known;
  Duration all{};
  size_t measured = 0;
  for (size_t i = 0; i < function.dag.components.size(); ++i) {
    const auto time = component_time(function, i, shape);
    all += time.value_or(Duration{});
    measured += time.has_value();
  }
  const Duration other = (measured ? all / static_cast<int64_t>(measured) : kAssumedTime) *
                         static_cast<int64_t>(requests);
  Duration sum{};
  for (const size_t component : stage_process.components) {
    sum += component_time(function, component, shape, requests).value_or(other);
  }
  return sum;
}

StageProcessTimes stage_process_times(const PipelineFunction& function, const Partition& partition,
                                      std::span<const HandOver> crossing,
                                      std::span<const Duration> work, const TransferCosts& costs,
                                      size_t requests) {
  const std::vector<const StageProcess*> stage_processes = stage_processes_of(partition);
  const auto copy_of = [&](const HandOver& each) {
    return transfer_time(profile_of(function, each.component).output * requests,
                         costs.copies_gb_per_s);
  };
  StageProcessTimes times;
  times.busy.assign(work.begin(), work.end());
  for (const HandOver& each : crossing) {
    times.busy[each.from] += copy_of(each);
    times.busy[each.to] += copy_of(each) + costs.handover;
  }
  // Copies of one job go beside the work on another, but no more jobs than that are in flight.
  for (size_t stage_process = 0; stage_process < stage_processes.size(); ++stage_process) {
    times.busy[stage_process] = std::max(
        work[stage_process], times.busy[stage_process] / static_cast<int64_t>(kJobsInFlight));
  }
  // Stage processes in their order: what one needs comes from those before it. Only the gathering
  // stage process takes results of stage processes beside it, when its own work is done.
  std::vector<Duration> finished(stage_processes.size());
  auto next = crossing.begin();
  for (size_t stage_process = 0; stage_process < stage_processes.size(); ++stage_process) {
    Duration ready{}, gathered{};
    for (; next != crossing.end() && next->to == stage_process; ++next) {
      const Duration there = finished[next->from] + 2 * copy_of(*next) + costs.handover;
      const auto& components = stage_processes[stage_process]->components;
      const bool needed_here = std::any_of(components.begin(), components.end(), [&](size_t i) {
        const auto& inputs = function.dag.components[i].inputs;
        return std::find(inputs.begin(), inputs.end(),
                         Source{Source::Kind::kComponent, next->component}) != inputs.end();
      });
      Duration& until = needed_here ? ready : gathered;
      until = std::max(until, there);
    }
    finished[stage_process] = std::max(ready + work[stage_process], gathered);
    times.latency = std::max(times.latency, finished[stage_process]);
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
  const StageProcessTimes times = times_on(function, partition, shapes, costs);
  return {times.latency, *std::max_element(times.busy.begin(), times.busy.end())};
}

BatchTiming job_timing(const PipelineFunction& function, const Partition& partition,
                       std::span<const SliceShape* const> shapes, std::span<const size_t> replicas,
                       const TransferCosts& costs, size_t requests) {
  const StageProcessTimes times = times_on(function, partition, shapes, costs, requests);
  BatchTiming timing{.requests = requests, .latency = times.latency};
  for (size_t i = 0; i < times.busy.size(); ++i) {
    const auto taking_turns = static_cast<int64_t>(replicas.empty() ? 1 : replicas[i]);
    timing.bottleneck = std::max(timing.bottleneck, times.busy[i] / taking_turns);
  }
  return timing;
}

std::vector<size_t> batch_sizes(const PipelineFunction& function) {
  const auto& components = function.profile.components;
  const bool any = std::any_of(components.begin(), components.end(),
                               [](const auto& each) { return !each.batch_times_by_shape.empty(); });
  std::vector<size_t> sizes;
  if (!any || function.most_batch < 2) return sizes;
  for (size_t requests = 2;; requests = std::min<size_t>(2 * requests, function.most_batch)) {
    sizes.push_back(requests);
    if (requests == function.most_batch) return sizes;
  }
}

std::vector<BatchTiming> batch_timings(const PipelineFunction& function, const Partition& partition,
                                       std::span<const SliceShape* const> shapes,
                                       std::span<const size_t> replicas,
                                       const TransferCosts& costs) {
  std::vector<BatchTiming> timings;
  for (const size_t requests : batch_sizes(function)) {
    timings.push_back(job_timing(function, partition, shapes, replicas, costs, requests));
  }
  return timings;
}

Capacity capacity_of(Duration bottleneck, std::span<const BatchTiming> batches, Duration slo,
                     double pace) {
  const auto paced = [pace](Duration profiled) {
    return Duration(static_cast<int64_t>(static_cast<double>(profiled.count()) * pace));
  };
  Capacity capacity{.seconds_a_result = to_seconds(paced(bottleneck))};
  for (const BatchTiming& each : batches) {
    const Duration its = paced(each.bottleneck);
    if (!keeps_slo(slo, paced(each.latency), its)) break;
    const double seconds = to_seconds(its) / static_cast<double>(each.requests);
    if (seconds < capacity.seconds_a_result) capacity = {each.requests, seconds};
  }
  return capacity;
}

Capacity capacity_of(const Placement& placement, Duration slo, double pace) {
  return capacity_of(placement.bottleneck, placement.batches, slo, pace);
}

Duration load_time(const PipelineFunction& function, const Placement& placement,
                   std::span<const Slice* const> slices, const TransferCosts& costs) {
  const std::vector<const StageProcess*> stage_processes = stage_processes_of(placement.partition);
  const std::vector<Process> processes = processes_of(placement);
  std::map<uint32_t, Bytes> by_gpu;
  for (size_t i = 0; i < processes.size(); ++i) {
    for (const size_t component : stage_processes[processes[i].stage_process]->components) {
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
