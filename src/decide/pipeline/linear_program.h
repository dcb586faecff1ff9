// A small linear program, solved exactly but for rounding: a dense simplex with Bland's rule, which
// always ends. A pure function; used for bounds and advice, not on the way of a request.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace lambent::pipeline {

// Maximise sum(gains[j] x[j]) with sum(rows[i].weights[j] x[j]) <= rows[i].most, all x >= 0.
struct LinearProgram {
  struct Row {
    std::vector<double> weights;  // as many as gains
    double most = 0;              // not negative, so that nothing at all is allowed
  };
  std::vector<double> gains;
  std::vector<Row> rows;
};

struct LinearSolution {
  double gain = 0;
  std::vector<double> amounts;  // x
};

// None: it can grow without end.
std::optional<LinearSolution> maximise(const LinearProgram& program);

}  // namespace lambent::pipeline
