// PieceMap: how one block of 2 MiB of device memory is divided among allocations that are smaller.
// Plain memory without constructors to run; not synchronised.
#pragma once

#include <stdint.h>

namespace lambent::device_memory {

// What the driver hands out in, and aligns to.
constexpr uint64_t kPieceBytes = 512;
constexpr uint64_t kPieceBlockBytes = uint64_t{2} << 20;

class PieceMap {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  PieceMap();

  // The offset of `bytes` that are free, rounded up to whole pieces; kNone if there is no room.
  uint32_t take(uint64_t bytes);
  // Gives back what take() gave.
  void give_back(uint32_t offset);
  bool is_empty() const { return free_units_ == kUnits; }
  uint64_t free_bytes() const { return free_units_ * kPieceBytes; }

 private:
  static constexpr uint32_t kUnits = kPieceBlockBytes / kPieceBytes;

  // The block is a row of runs, taken or free. Only the first unit of a run says something.
  struct Run {
    uint16_t units;
    bool is_taken;
  };
  Run runs_[kUnits];
  uint32_t free_units_;
  // No free run is longer than this; it may be less.
  uint32_t longest_;
};

}  // namespace lambent::device_memory
