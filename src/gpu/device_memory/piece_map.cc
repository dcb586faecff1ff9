#include "gpu/device_memory/piece_map.h"

namespace lambent::device_memory {

PieceMap::PieceMap() : free_units_(kUnits), longest_(kUnits) {
  runs_[0] = {static_cast<uint16_t>(kUnits), false};
}

// First fit. Free runs that have become neighbours grow together when a search comes by.
uint32_t PieceMap::take(uint64_t bytes) {
  if (bytes == 0 || bytes > kPieceBlockBytes) return kNone;
  const uint32_t wanted = static_cast<uint32_t>((bytes + kPieceBytes - 1) / kPieceBytes);
  if (wanted > longest_) return kNone;
  uint32_t longest = 0;
  for (uint32_t unit = 0; unit < kUnits; unit += runs_[unit].units) {
    if (runs_[unit].is_taken) continue;
    uint32_t end = unit + runs_[unit].units;
    while (end < kUnits && !runs_[end].is_taken) end += runs_[end].units;
    const uint32_t units = end - unit;
    runs_[unit].units = static_cast<uint16_t>(units);
    if (units > longest) longest = units;
    if (units < wanted) continue;
    if (units > wanted) {
      runs_[unit + wanted] = {static_cast<uint16_t>(units - wanted), false};
    }
    runs_[unit] = {static_cast<uint16_t>(wanted), true};
    free_units_ -= wanted;
    return unit * static_cast<uint32_t>(kPieceBytes);
  }
  longest_ = longest;
  return kNone;
}

void PieceMap::give_back(uint32_t offset) {
  Run& run = runs_[offset / kPieceBytes];
  run.is_taken = false;
  free_units_ += run.units;
  longest_ = free_units_;
}

}  // namespace lambent::device_memory
