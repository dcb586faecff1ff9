// Slice: a part of a GPU that a stage of a pipeline may be given: a MIG instance, or a whole
// device. A value; made from what lambent-device finds, read by planners and policies, any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/ids.h"
#include "base/units.h"

namespace lambent {

// What matters of a slice to who plans: two of one shape are as good as each other.
struct SliceShape {
  std::string name;  // "2g.20gb"; of a whole device its name
  unsigned multiprocessors = 0;
  Bytes memory;

  bool operator==(const SliceShape&) const = default;
};

struct Slice {
  DeviceId id;
  uint32_t gpu = 0;   // the physical device that it is a part of
  uint32_t node = 0;  // always 0 on a worker; simulations have several
  std::string uuid;
  SliceShape shape;
  // What it promises to those who run on it, and to those on other slices of its device.
  bool memory_isolated = true;
  bool fault_isolated = true;
  bool runs_concurrently = true;

  bool operator==(const Slice&) const = default;
};

}  // namespace lambent
