#include "decide/pipeline/slice_prices.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "decide/pipeline/hand_over.h"
#include "decide/pipeline/linear_program.h"

namespace lambent::pipeline {
namespace {

constexpr size_t kMostWays = 256;  // to give the stage processes of one partition shapes

struct Shape {
  SliceShape shape;
  double count = 0;
};

// Instances of one function that take as many slices of each shape.
struct Column {
  size_t function = 0;  // of the mix
  std::vector<int> taken;
  double results_per_s = 0;
};

std::vector<Shape> shapes_of(std::span<const Slice> slices) {
  std::vector<Shape> shapes;
  for (const Slice& slice : slices) {
    auto found = std::find_if(shapes.begin(), shapes.end(),
                              [&](const Shape& each) { return each.shape == slice.shape; });
    if (found == shapes.end()) found = shapes.insert(found, Shape{slice.shape});
    ++found->count;
  }
  return shapes;
}

class Columns {
 public:
  Columns(const std::vector<Shape>& shapes, const TransferCosts& costs)
      : shapes_(shapes), costs_(costs) {}

  void add(size_t number, const PipelineFunction& function) {
    in_time_.clear();
    late_.clear();
    for (size_t i = 0; i < std::min(function.ranked.size(), kPriced); ++i) {
      add(function, function.ranked[i]);
    }
    for (const auto& [taken, results_per_s] : in_time_.empty() ? late_ : in_time_) {
      all.push_back({number, taken, results_per_s});
    }
  }

  std::vector<Column> all;

 private:
  // Every way to give its stage processes shapes, as long as these are few.
  void add(const PipelineFunction& function, const Partition& partition) {
    const std::vector<const StageProcess*> stage_processes = stage_processes_of(partition);
    std::vector<std::vector<size_t>> choices;
    size_t ways = 1;
    for (const StageProcess* stage_process : stage_processes) {
      const Bytes memory = memory_of(function, *stage_process);
      std::vector<size_t> fits;
      for (size_t i = 0; i < shapes_.size(); ++i) {
        if (shapes_[i].shape.memory >= memory) fits.push_back(i);
      }
      if (fits.empty()) return;
      ways = std::min(kMostWays + 1, ways * fits.size());
      choices.push_back(std::move(fits));
    }
    if (ways > kMostWays) return;
    std::vector<size_t> way(stage_processes.size());
    for (;;) {
      add_way(function, partition, choices, way);
      size_t stage_process = 0;
      while (stage_process < way.size() && ++way[stage_process] == choices[stage_process].size())
        way[stage_process++] = 0;
      if (stage_process == way.size()) return;
    }
  }

  void add_way(const PipelineFunction& function, const Partition& partition,
               const std::vector<std::vector<size_t>>& choices, const std::vector<size_t>& way) {
    std::vector<int> taken(shapes_.size());
    std::vector<const SliceShape*> on;
    for (size_t stage_process = 0; stage_process < way.size(); ++stage_process) {
      const size_t shape = choices[stage_process][way[stage_process]];
      ++taken[shape];
      on.push_back(&shapes_[shape].shape);
    }
    for (size_t i = 0; i < taken.size(); ++i) {
      if (taken[i] > shapes_[i].count) return;
    }
    const Timing timing = timing_of(function, partition, on, costs_);
    const bool late = function.slo > Duration{} && timing.latency > function.slo;
    double& most = (late ? late_ : in_time_)[taken];
    most = std::max(most, 1 / std::max(to_seconds(timing.bottleneck), 1e-9));
  }

  const std::vector<Shape>& shapes_;
  const TransferCosts& costs_;
  std::map<std::vector<int>, double> in_time_, late_;  // of one function
};

}  // namespace

Result<SlicePrices> price_slices(std::span<const MixedFunction> mix, std::span<const Slice> slices,
                                 const TransferCosts& costs) {
  double sum = 0;
  for (const MixedFunction& each : mix) {
    if (!(each.share >= 0) || !std::isfinite(each.share)) {
      return Error{ErrorCode::kInvalidArgument, "a share of a mix is a number, not less than 0"};
    }
    sum += each.share;
  }
  if (sum <= 0) return Error{ErrorCode::kFailedPrecondition, "no function of the mix has a share"};

  const std::vector<Shape> shapes = shapes_of(slices);
  Columns columns(shapes, costs);
  LinearProgram program;
  std::vector<size_t> row_of(mix.size());
  for (size_t i = 0; i < mix.size(); ++i) {
    if (mix[i].share == 0) continue;
    const size_t before = columns.all.size();
    columns.add(i, *mix[i].function);
    if (columns.all.size() == before) {
      return Error{ErrorCode::kFailedPrecondition, "a function of the mix fits no slices"};
    }
  }
  program.gains.assign(1 + columns.all.size(), 0);
  program.gains[0] = 1;
  const std::vector<double> nothing(program.gains.size());
  for (const Shape& shape : shapes) program.rows.push_back({nothing, shape.count});
  for (size_t i = 0; i < mix.size(); ++i) {
    if (mix[i].share == 0) continue;
    row_of[i] = program.rows.size();
    program.rows.push_back({nothing, 0});
    program.rows.back().weights[0] = mix[i].share / sum;
  }
  for (size_t i = 0; i < columns.all.size(); ++i) {
    const Column& column = columns.all[i];
    for (size_t shape = 0; shape < shapes.size(); ++shape) {
      program.rows[shape].weights[1 + i] = column.taken[shape];
    }
    program.rows[row_of[column.function]].weights[1 + i] = -column.results_per_s;
  }
  // Every function needs slices to give anything, so that there is an end; but for shares so small
  // beside what instances give that they are lost in rounding.
  const auto solution = maximise(program);
  if (!solution) {
    return Error{ErrorCode::kFailedPrecondition, "the functions of the mix are too unlike"};
  }
  SlicePrices prices{.requests_per_s = solution->gain};
  for (size_t i = 0; i < shapes.size(); ++i) {
    prices.by_shape[shapes[i].shape.name] = std::max(0.0, solution->prices[i]);
  }
  return prices;
}

}  // namespace lambent::pipeline
