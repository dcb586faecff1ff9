// The points of a sweep for other programs: CSV and JSON. Pure; used by lambent-sweep.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "sim/sweep/figures.h"

namespace lambent::sweep {

// A row per point: the values of the axes, how many seeds, and of every metric the mean and half
// the width of its interval (empty where there is none).
std::string csv_of(const Grid& grid, const std::vector<Point>& points);

// {"simulated": true, "points": [{"point": {axis: value}, "figures": {metric: {"mean", "seeds",
// "half_width"}}}], "assumptions": [...]}
std::string json_of(const Grid& grid, const std::vector<Point>& points,
                    const std::set<std::string>& assumptions);

// Whether several seeds gave the same everywhere, which makes intervals of no width.
bool seeds_change_nothing(const std::vector<Point>& points);

}  // namespace lambent::sweep
