#include "decide/pipeline/planner.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "decide/pipeline/enumeration.h"
#include "decide/pipeline/hand_over.h"
#include "decide/pipeline/limits.h"

namespace lambent::pipeline {
namespace {

StageProcess whole_of(const Dag& dag) {
  StageProcess stage_process;
  for (size_t i = 0; i < dag.components.size(); ++i) stage_process.components.push_back(i);
  return stage_process;
}

// Standard deviation by mean.
double variation_of(const std::vector<Duration>& times) {
  double sum = 0, squares = 0;
  for (const Duration time : times) sum += to_seconds(time);
  const double mean = sum / static_cast<double>(times.size());
  if (mean <= 0) return 0;
  for (const Duration time : times) squares += std::pow(to_seconds(time) - mean, 2);
  return std::sqrt(squares / static_cast<double>(times.size())) / mean;
}

class Judge {
 public:
  Judge(const PipelineFunction& function, const PlannerOptions& options)
      : function_(function),
        options_(options),
        shapes_(options.shapes.empty() ? function.shapes : options.shapes) {}

  // Without any shape nothing is left out: there is nothing to hold stage processes against.
  const SliceShape* shape_for(const StageProcess& stage_process) const {
    static const SliceShape kUnknown;
    if (shapes_.empty()) return &kUnknown;
    return smallest_holding(shapes_, memory_of(function_, stage_process));
  }

  std::optional<Duration> time_of(const StageProcess& stage_process) const {
    const SliceShape* shape = shape_for(stage_process);
    if (!shape) return std::nullopt;
    return expected_time(function_, stage_process, *shape);
  }

  RankedPartition judge(Partition partition) const {
    RankedPartition ranked{.partition = std::move(partition)};
    std::vector<const SliceShape*> shapes;
    uint64_t multiprocessors = 0;
    for (const Stage& stage : ranked.partition.stages) {
      Duration longest{};
      for (const StageProcess& stage_process : stage.stage_processes) {
        shapes.push_back(shape_for(stage_process));
        if (!shapes_.empty()) ranked.shapes.push_back(*shapes.back());
        multiprocessors += shapes.back()->multiprocessors;
        longest = std::max(longest, expected_time(function_, stage_process, *shapes.back()));
      }
      ranked.stage_times.push_back(longest);
    }
    ranked.variation = variation_of(ranked.stage_times);
    ranked.timing = timing_of(function_, ranked.partition, shapes, options_.costs);
    // Without shapes, by slices.
    if (multiprocessors == 0) multiprocessors = shapes.size();
    const Capacity capacity = capacity_of(
        ranked.timing.bottleneck,
        batch_timings(function_, ranked.partition, shapes, {}, options_.costs), function_.slo);
    ranked.requests = capacity.requests;
    ranked.results_per_s = capacity.per_s();
    ranked.results_per_s_per_multiprocessor =
        1 / (std::max(capacity.seconds_a_result, 1e-9) * static_cast<double>(multiprocessors));
    return ranked;
  }

  void sort(std::vector<RankedPartition>& partitions) const {
    std::sort(partitions.begin(), partitions.end(),
              [&](const RankedPartition& a, const RankedPartition& b) { return before(a, b); });
  }

  Error nothing_fits() const {
    const auto largest =
        std::max_element(shapes_.begin(), shapes_.end(),
                         [](const auto& a, const auto& b) { return a.memory < b.memory; });
    for (size_t i = 0; i < function_.dag.components.size(); ++i) {
      const Bytes needed = memory_of(function_, StageProcess{{i}});
      if (needed <= largest->memory) continue;
      return {ErrorCode::kResourceExhausted,
              "component '" + function_.dag.components[i].name + "' needs " + to_string(needed) +
                  " of device memory, its process's context included; the largest slice, " +
                  largest->name + ", has " + to_string(largest->memory)};
    }
    return {ErrorCode::kResourceExhausted,
            "cut into at most " + std::to_string(options_.most_stages) +
                " stages the function fits no slices; the largest, " + largest->name + ", has " +
                to_string(largest->memory)};
  }

 private:
  bool before(const RankedPartition& a, const RankedPartition& b) const {
    const auto rest = [](const RankedPartition& each) {
      return std::tuple(each.partition.stages.size(), each.partition.stage_processes(),
                        each.timing.bottleneck);
    };
    if (options_.rule == RankRule::kThroughput) {
      const auto keeps = [&](const RankedPartition& each) {
        return function_.slo == Duration{} || each.timing.latency <= function_.slo;
      };
      if (keeps(a) != keeps(b)) return keeps(a);
      const int64_t left = rounded(a.results_per_s_per_multiprocessor),
                    right = rounded(b.results_per_s_per_multiprocessor);
      if (left != right) return left > right;
    } else {
      const int64_t left = rounded(a.variation), right = rounded(b.variation);
      if (left != right) return left < right;
    }
    if (rest(a) != rest(b)) return rest(a) < rest(b);
    return components_before(a.partition, b.partition);
  }

  // So that what is equal but for rounding is equal.
  static int64_t rounded(double value) { return std::llround(std::min(value, 1e6) * 1e9); }

  static bool components_before(const Partition& a, const Partition& b) {
    const std::vector<const StageProcess*> left = stage_processes_of(a),
                                           right = stage_processes_of(b);
    return std::lexicographical_compare(
        left.begin(), left.end(), right.begin(), right.end(),
        [](const StageProcess* x, const StageProcess* y) { return x->components < y->components; });
  }

  const PipelineFunction& function_;
  const PlannerOptions& options_;
  const std::vector<SliceShape>& shapes_;
};

}  // namespace

const SliceShape* smallest_holding(std::span<const SliceShape> shapes, Bytes memory) {
  const SliceShape* smallest = nullptr;
  const auto size = [](const SliceShape& shape) {
    return std::tie(shape.multiprocessors, shape.memory, shape.name);
  };
  for (const SliceShape& shape : shapes) {
    if (shape.memory < memory) continue;
    if (!smallest || size(shape) < size(*smallest)) smallest = &shape;
  }
  return smallest;
}

Result<std::vector<RankedPartition>> judge_partitions(const PipelineFunction& function,
                                                      const PlannerOptions& options) {
  const size_t count = function.dag.components.size();
  if (count == 0 || count > limits::kComponents) {
    return Error{ErrorCode::kInvalidArgument,
                 "a pipeline function has 1 to " + std::to_string(limits::kComponents) +
                     " components; this one has " + std::to_string(count)};
  }
  if (options.most_stages == 0 || options.most_partitions == 0) {
    return Error{ErrorCode::kInvalidArgument, "there is at least one stage, and one partition"};
  }
  const Judge judge(function, options);
  std::vector<RankedPartition> ranked;
  for (Partition& partition : all_partitions(
           function.dag, {options.most_stages, options.most_partitions},
           [&](const StageProcess& stage_process) { return judge.time_of(stage_process); })) {
    ranked.push_back(judge.judge(std::move(partition)));
  }
  if (ranked.empty()) return judge.nothing_fits();
  judge.sort(ranked);
  return ranked;
}

Result<std::vector<Partition>> rank_partitions(const PipelineFunction& function,
                                               const PlannerOptions& options) {
  ASSIGN_OR_RETURN(std::vector<RankedPartition> ranked, judge_partitions(function, options));
  std::vector<Partition> partitions;
  for (RankedPartition& each : ranked) partitions.push_back(std::move(each.partition));
  return partitions;
}

std::optional<Duration> time_alone(const PipelineFunction& function, const TransferCosts& costs) {
  if (function.dag.components.empty()) return std::nullopt;
  const StageProcess whole = whole_of(function.dag);
  if (const SliceShape* shape = smallest_holding(function.shapes, memory_of(function, whole))) {
    return time_of(function, whole, *shape);
  }
  const auto partitions = judge_partitions(function, {.costs = costs});
  if (!partitions.ok()) return std::nullopt;
  std::optional<Duration> quickest;
  for (const RankedPartition& each : *partitions) {
    std::vector<const SliceShape*> shapes;
    for (const StageProcess* stage_process : stage_processes_of(each.partition)) {
      const Bytes memory = memory_of(function, *stage_process);
      const SliceShape* best = nullptr;
      std::optional<Duration> least;
      for (const SliceShape& shape : function.shapes) {
        const auto time = time_of(function, *stage_process, shape);
        if (shape.memory < memory || !time || (least && *least <= *time)) continue;
        least = time;
        best = &shape;
      }
      if (!best) return std::nullopt;
      shapes.push_back(best);
    }
    const Duration latency = timing_of(function, each.partition, shapes, costs).latency;
    if (!quickest || latency < *quickest) quickest = latency;
  }
  return quickest;
}

Result<PipelineFunction> plan_function(FunctionId id, const PipelineDefinition& definition,
                                       const MeasuredProfile& measured, Bytes declared_memory,
                                       PlannerOptions options) {
  PipelineFunction function{.id = id,
                            .dag = definition.dag,
                            .profile = measured.profile,
                            .shapes = measured.shapes,
                            .declared_memory = declared_memory,
                            .most_batch = definition.most_batch};
  for (const SliceShape& shape : options.shapes) {
    if (std::none_of(function.shapes.begin(), function.shapes.end(),
                     [&](const SliceShape& each) { return each.name == shape.name; })) {
      function.shapes.push_back(shape);
    }
  }
  if (const auto* time = std::get_if<Duration>(&definition.slo)) {
    function.slo = *time;
  } else if (const auto* scale = std::get_if<SloScale>(&definition.slo)) {
    const Duration alone = time_alone(function, options.costs).value_or(Duration{});
    function.slo =
        from_seconds(std::min(to_seconds(alone) * scale->factor, to_seconds(limits::kTime)));
  }
  options.rule = definition.rank.value_or(options.rule);
  ASSIGN_OR_RETURN(function.ranked, rank_partitions(function, options));
  return function;
}

}  // namespace lambent::pipeline
