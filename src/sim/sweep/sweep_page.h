// The page of a sweep: heat maps of chosen figures over two axes, and a table of every point.
// Pure and deterministic; used by lambent-sweep.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "sim/sweep/figures.h"

namespace lambent::sweep {

struct SweepPage {
  std::string title;
  std::string facts;                       // what was run, in plain text
  std::vector<size_t> metrics;             // indices into metrics(): a heat map each
  size_t across = 0;                       // the axis that goes from left to right
  size_t down = 0;                         // and from top to bottom; the same as `across`: one row
  std::set<std::string> assumptions = {};  // what of the traces was taken to be so
};

// Maps beyond this many are left out, and the page says so.
constexpr size_t kMostMaps = 48;

std::string html_of(const SweepPage& page, const Grid& grid, const std::vector<Point>& points);

// "12.3 ± 0.4", or without the interval where there is none; "-" without any sample.
std::string text_of(const Estimate& estimate);

}  // namespace lambent::sweep
