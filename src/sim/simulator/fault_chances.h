// FaultChances: how often each kind of fault happens in one faulty world, and how often it did. Of
// the thread that runs the world.
#pragma once

#include <array>

#include "core/base/random.h"
#include "sim/simulator/fault.h"

namespace lambent::simulator {

class FaultChances {
 public:
  // Drawn at random; those `without` do not happen. `random` outlives this.
  FaultChances(Random& random, const std::array<bool, kFaults>& without);
  FaultChances(const FaultChances&) = delete;
  FaultChances& operator=(const FaultChances&) = delete;

  // Of those to which it could happen; of incidents (devices, the clock, people), zero if there is
  // none in this world.
  double of(Fault fault) const { return chances_[static_cast<size_t>(fault)]; }
  // Whether it happens now; then it is counted.
  bool occurs(Fault fault);
  // It happens now.
  void note(Fault fault) { ++counts_[static_cast<size_t>(fault)]; }

  const FaultCounts& counts() const { return counts_; }

 private:
  Random& random_;
  std::array<double, kFaults> chances_{};
  FaultCounts counts_{};
};

}  // namespace lambent::simulator
