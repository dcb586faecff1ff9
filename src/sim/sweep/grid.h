// The grid of a sweep: axes of values and seeds, and the cells between them. Pure; made from what
// the user wrote, walked by lambent-sweep.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace lambent::sweep {

// The parameter and its values, in the order to try and show them.
struct Axis {
  std::string name;
  std::vector<std::string> values;

  bool operator==(const Axis&) const = default;
};

// NAME=A,B,C or, of numbers, NAME=FIRST:LAST (steps of 1), NAME=FIRST:LAST:STEP or
// NAME=FIRST:LAST:xFACTOR; pieces of both kinds may be mixed. INVALID_ARGUMENT says what is wrong;
// a value given twice is.
Result<Axis> parse_axis(const std::string& text);

// One simulation: a value of each axis, and a seed.
struct Cell {
  std::vector<std::string> values;
  uint64_t seed = 1;

  auto operator<=>(const Cell&) const = default;
};

constexpr size_t kMostCells = 1'000'000;

struct Grid {
  std::vector<Axis> axes;
  uint64_t first_seed = 1;
  uint64_t seeds = 1;

  // INVALID_ARGUMENT if two axes have one name or there are more than kMostCells cells.
  Result<void> check() const;
  size_t size() const;
  // All cells, the last axis first to change, the seed before it.
  std::vector<Cell> cells() const;

  bool operator==(const Grid&) const = default;
};

}  // namespace lambent::sweep
