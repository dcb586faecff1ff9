#include "sim/simulator/fault_chances.h"

#include <iterator>

namespace lambent::simulator {

FaultChances::FaultChances(Random& random, const std::array<bool, kFaults>& without)
    : random_(random) {
  constexpr double kIntensities[] = {0, 0.02, 0.05, 0.2};
  for (size_t i = 0; i < kFaults; ++i) {
    chances_[i] = kIntensities[random.below(std::size(kIntensities))];
    if (without[i]) chances_[i] = 0;
  }
}

// What never happens draws nothing.
bool FaultChances::occurs(Fault fault) {
  const double chance = of(fault);
  if (chance == 0 || random_.uniform() >= chance) return false;
  note(fault);
  return true;
}

}  // namespace lambent::simulator
