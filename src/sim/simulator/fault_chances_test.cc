#include "sim/simulator/fault_chances.h"

#include <gtest/gtest.h>

#include <numeric>

namespace lambent::simulator {
namespace {

uint64_t total(const FaultCounts& counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

TEST(FaultChances, AFaultHappensAboutAsOftenAsItsChanceAndIsCounted) {
  SeededRandom random(1);
  FaultChances chances(random, {});
  bool some_happens = false;
  for (size_t i = 0; i < kFaults; ++i) {
    const auto fault = static_cast<Fault>(i);
    uint64_t times = 0;
    for (int each = 0; each < 10'000; ++each) times += chances.occurs(fault) ? 1 : 0;
    EXPECT_EQ(chances.counts()[i], times);
    EXPECT_NEAR(static_cast<double>(times), 10'000 * chances.of(fault), 200) << name_of(fault);
    some_happens = some_happens || times > 0;
  }
  EXPECT_TRUE(some_happens);
}

TEST(FaultChances, WhatIsExcludedNeverHappensAndDrawsNothing) {
  std::array<bool, kFaults> without{};
  without.fill(true);
  SeededRandom random(1), other(1);
  FaultChances chances(random, without);
  for (size_t i = 0; i < kFaults; ++i) other.below(4);
  for (size_t i = 0; i < kFaults; ++i) EXPECT_FALSE(chances.occurs(static_cast<Fault>(i)));
  EXPECT_EQ(total(chances.counts()), 0u);
  EXPECT_EQ(random.next(), other.next());
}

TEST(FaultChances, WhatAWorldNotesIsCountedWhateverItsChance) {
  SeededRandom random(1);
  FaultChances chances(random, {});
  chances.note(Fault::kDrain);
  EXPECT_EQ(chances.counts()[static_cast<size_t>(Fault::kDrain)], 1u);
  EXPECT_EQ(total(chances.counts()), 1u);
}

}  // namespace
}  // namespace lambent::simulator
