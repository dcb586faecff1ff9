// The file of a sweep and the words of --vary are foreign: what is read belongs to its grid, or
// there is an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "sim/sweep/sweep_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent::sweep;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto axis = parse_axis(text); axis.ok() && axis->values.empty()) abort();
  const auto sweep = read_sweep(text, "sweep.jsonl");
  if (!sweep.ok()) return 0;
  if (sweep->whole_bytes > size) abort();
  for (const CellResult& result : sweep->results) {
    if (result.cell.values.size() != sweep->header.grid.axes.size()) abort();
  }
  if (sweep->header.grid.size() <= 1000) (void)points_of(sweep->header.grid, sweep->results);
  return 0;
}
