#include "decide/pipeline/linear_program.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"

namespace lambent::pipeline {
namespace {

constexpr double kSmall = 1e-11;  // what is less is taken to be rounding

// The tableau: a row for each constraint, with its slack, and one for the gains. A basic variable
// is the one that a row gives the value of.
class Tableau {
 public:
  explicit Tableau(const LinearProgram& program)
      : variables_(program.gains.size()), width_(variables_ + program.rows.size() + 1) {
    for (size_t i = 0; i < program.rows.size(); ++i) {
      const LinearProgram::Row& row = program.rows[i];
      CHECK(row.weights.size() == variables_, "a row has a weight for each variable");
      CHECK(row.most >= 0, "a row's most is not negative");
      // All rows in one measure, so that one bound of rounding is good for all.
      double scale = 0;
      for (const double weight : row.weights) scale = std::max(scale, std::abs(weight));
      if (scale == 0) scale = 1;
      std::vector<double> line(width_);
      for (size_t j = 0; j < variables_; ++j) line[j] = row.weights[j] / scale;
      line[variables_ + i] = 1;
      line.back() = row.most / scale;
      rows_.push_back(std::move(line));
      basis_.push_back(variables_ + i);
    }
    gains_.assign(width_, 0);
    for (size_t j = 0; j < variables_; ++j) gains_[j] = -program.gains[j];
  }

  bool solve() {
    for (;;) {
      // Bland: of those that help the first, and of the rows that stop it the first variable.
      size_t enters = 0;
      while (enters + 1 < width_ && gains_[enters] >= -kSmall) ++enters;
      if (enters + 1 == width_) return true;
      size_t leaves = rows_.size();
      double least = 0;
      for (size_t i = 0; i < rows_.size(); ++i) {
        if (rows_[i][enters] <= kSmall) continue;
        const double ratio = rows_[i].back() / rows_[i][enters];
        if (leaves == rows_.size() || ratio < least - kSmall ||
            (ratio < least + kSmall && basis_[i] < basis_[leaves])) {
          leaves = i;
          least = ratio;
        }
      }
      if (leaves == rows_.size()) return false;
      pivot(leaves, enters);
    }
  }

  LinearSolution solution() const {
    LinearSolution solution{gains_.back(), std::vector<double>(variables_)};
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (basis_[i] < variables_) solution.amounts[basis_[i]] = std::max(0.0, rows_[i].back());
    }
    return solution;
  }

 private:
  void pivot(size_t row, size_t column) {
    std::vector<double>& line = rows_[row];
    const double by = line[column];
    for (double& each : line) each /= by;
    const auto clear = [&](std::vector<double>& other) {
      const double factor = other[column];
      if (factor == 0) return;
      for (size_t j = 0; j < width_; ++j) other[j] -= factor * line[j];
      other[column] = 0;
    };
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (i != row) clear(rows_[i]);
    }
    clear(gains_);
    basis_[row] = column;
  }

  const size_t variables_;
  const size_t width_;  // variables, slacks, and what the row comes to
  std::vector<std::vector<double>> rows_;
  std::vector<size_t> basis_;
  std::vector<double> gains_;
};

}  // namespace

std::optional<LinearSolution> maximise(const LinearProgram& program) {
  Tableau tableau(program);
  if (!tableau.solve()) return std::nullopt;
  return tableau.solution();
}

}  // namespace lambent::pipeline
