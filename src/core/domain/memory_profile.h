// MemoryProfile: how much device memory a model needs at each of its kernels, and for how long:
// what was learnt before it is run in earnest. A value; made from graphs, used by policies, any
// thread.
#pragma once

#include <algorithm>
#include <vector>

#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent {

struct KernelMemory {
  // With the device to itself: kernels that share it take longer, none is quicker.
  Duration duration{};
  // What must lie on the device while it runs, if every variable comes with the first kernel that
  // touches it and goes with the last one.
  Bytes live;

  bool operator==(const KernelMemory&) const = default;
};

struct MemoryProfile {
  std::vector<KernelMemory> kernels;  // in the order in which they run
  // All variables at once, as for one who allocates everything before the first kernel.
  Bytes whole;

  Bytes peak() const {
    Bytes most;
    for (const KernelMemory& kernel : kernels) most = std::max(most, kernel.live);
    return most;
  }
  Duration duration() const {
    Duration sum{};
    for (const KernelMemory& kernel : kernels) sum += kernel.duration;
    return sum;
  }

  bool operator==(const MemoryProfile&) const = default;
};

}  // namespace lambent
