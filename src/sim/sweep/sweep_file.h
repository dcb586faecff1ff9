// The file of a sweep: JSON lines, a header and one line per finished cell, appended as they end,
// so that a sweep which was cut off goes on where it stopped. Values and text; pure.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "sim/sweep/figures.h"

namespace lambent::sweep {

struct SweepHeader {
  std::string version;                 // of the program that simulates
  std::vector<std::string> arguments;  // of `lambent simulate`, the same for every cell
  Grid grid;

  bool operator==(const SweepHeader&) const = default;
};

// Each as one line with its newline.
std::string line_of(const SweepHeader& header);
std::string line_of(const CellResult& result, const Grid& grid);

struct SweepFile {
  SweepHeader header;
  std::vector<CellResult> results;
  // The bytes of whole lines: what follows is a line that was cut off while it was written.
  size_t whole_bytes = 0;
};

// INVALID_ARGUMENT names file and line; DATA_LOSS where a cell does not belong to the grid.
Result<SweepFile> read_sweep(std::string_view text, const std::string& file);

// Why a sweep with `wanted` cannot go on with a file of `found`; empty if it can.
std::string difference(const SweepHeader& found, const SweepHeader& wanted);

}  // namespace lambent::sweep
