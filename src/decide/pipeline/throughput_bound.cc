#include "decide/pipeline/throughput_bound.h"

#include <cmath>
#include <string>
#include <vector>

#include "decide/pipeline/linear_program.h"
#include "decide/pipeline/stage_process_cost.h"

namespace lambent::pipeline {
namespace {

// What one slice does for one request at a time: a component, or a whole function.
struct Work {
  const PipelineFunction* function = nullptr;
  double share = 0;
  StageProcess stage_process;
};

std::vector<Work> work_of(std::span<const MixedFunction> mix, BoundKind kind) {
  std::vector<Work> all;
  for (const MixedFunction& each : mix) {
    if (each.share == 0) continue;
    Work whole{each.function, each.share, {}};
    for (size_t i = 0; i < each.function->dag.components.size(); ++i) {
      if (kind == BoundKind::kCut) all.push_back({each.function, each.share, StageProcess{{i}}});
      whole.stage_process.components.push_back(i);
    }
    if (kind == BoundKind::kWhole) all.push_back(std::move(whole));
  }
  return all;
}

struct Shape {
  SliceShape shape;
  double count = 0;
};

std::vector<Shape> shapes_of(std::span<const Slice> slices) {
  std::vector<Shape> shapes;
  for (const Slice& slice : slices) {
    Shape* found = nullptr;
    for (Shape& each : shapes) found = each.shape == slice.shape ? &each : found;
    if (!found) found = &shapes.emplace_back(Shape{slice.shape});
    ++found->count;
  }
  return shapes;
}

std::string unmeasured(std::span<const MixedFunction> mix) {
  std::string names;
  for (const MixedFunction& each : mix) {
    const PipelineFunction& function = *each.function;
    for (size_t i = 0; i < function.dag.components.size() && each.share > 0; ++i) {
      bool is_measured = true;
      for (const SliceShape& shape : function.shapes) {
        is_measured = is_measured && time_of(function, StageProcess{{i}}, shape);
      }
      if (is_measured && !function.shapes.empty()) continue;
      names += (names.empty() ? "'" : ", '") + function.dag.components[i].name + "'";
    }
  }
  return "not all components of the functions were measured" +
         (names.empty() ? "" : ": there are no times of " + names);
}

}  // namespace

Result<double> throughput_bound(std::span<const MixedFunction> mix, std::span<const Slice> slices,
                                BoundKind kind) {
  double sum = 0;
  for (const MixedFunction& each : mix) {
    if (!(each.share >= 0) || !std::isfinite(each.share)) {
      return Error{ErrorCode::kInvalidArgument, "a share of a mix is a number, not less than 0"};
    }
    sum += each.share;
  }
  if (sum <= 0) return Error{ErrorCode::kInvalidArgument, "a mix has a function with a share"};

  const std::vector<Work> all = work_of(mix, kind);
  const std::vector<Shape> shapes = shapes_of(slices);
  // The first variable is what is looked for: requests of the mix a second, for a sum of shares of
  // 1. The others are requests of one piece of work on one shape.
  struct Pair {
    size_t work = 0;
    size_t shape = 0;
    double seconds = 0;
  };
  std::vector<Pair> pairs;
  for (size_t work = 0; work < all.size(); ++work) {
    const PipelineFunction& function = *all[work].function;
    const Bytes memory = least_memory_of(function, all[work].stage_process);
    bool fits = false;
    for (size_t shape = 0; shape < shapes.size(); ++shape) {
      if (shapes[shape].shape.memory < memory) continue;
      const auto time = time_of(function, all[work].stage_process, shapes[shape].shape);
      if (!time) {
        return Error{ErrorCode::kFailedPrecondition, unmeasured(mix)};
      }
      pairs.push_back({work, shape, to_seconds(*time)});
      fits = true;
    }
    if (!fits) return 0.0;
  }

  LinearProgram program;
  program.gains.assign(1 + pairs.size(), 0);
  program.gains[0] = 1;
  for (const Shape& shape : shapes) {
    program.rows.push_back({std::vector<double>(1 + pairs.size()), shape.count});
  }
  for (const Work& work : all) {
    program.rows.push_back({std::vector<double>(1 + pairs.size()), 0});
    program.rows.back().weights[0] = work.share / sum;
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    program.rows[pairs[i].shape].weights[1 + i] = pairs[i].seconds;
    program.rows[shapes.size() + pairs[i].work].weights[1 + i] = -1;
  }
  const auto solution = maximise(program);
  if (!solution) {
    return Error{ErrorCode::kFailedPrecondition,
                 "functions that take no time at all have no bound"};
  }
  return solution->gain;
}

}  // namespace lambent::pipeline
