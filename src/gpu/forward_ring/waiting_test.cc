#include "gpu/forward_ring/waiting.h"

#include <gtest/gtest.h>

namespace lambent::forward_ring {
namespace {

// One wait for what comes after so many steps if a thread spins for them, else asleep.
bool spins(SpinBudget& budget, uint32_t steps_needed) {
  if (budget.steps() < steps_needed) {
    budget.did_not_come();
    return false;
  }
  budget.came_after(steps_needed);
  return true;
}

TEST(SpinBudget, FindsOutThatALongSpinPaysAfterShortOnesDidNot) {
  SpinBudget budget;
  for (int i = 0; i < 10; ++i) budget.did_not_come();
  ASSERT_LT(budget.steps(), 100u);
  int asleep = 0;
  for (int i = 0; i < 1000; ++i) asleep += spins(budget, 1500) ? 0 : 1;
  EXPECT_LT(asleep, 40);
  EXPECT_TRUE(spins(budget, 1500)) << "and keeps to it";
}

TEST(SpinBudget, SpinsLittleWhereItNeverPays) {
  SpinBudget budget;
  uint64_t steps = 0;
  constexpr int kWaits = 100'000;
  for (int i = 0; i < kWaits; ++i) {
    steps += budget.steps();
    budget.did_not_come();
  }
  EXPECT_LT(steps, kWaits * 67);
}

}  // namespace
}  // namespace lambent::forward_ring
