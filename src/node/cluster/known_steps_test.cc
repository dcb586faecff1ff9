#include "node/cluster/known_steps.h"

#include <gtest/gtest.h>

namespace lambent::cluster {
namespace {

TEST(KnownStepsTest, AGraphIsWalkedOncePerWorkflowUntilAFunctionChanges) {
  KnownSteps known;
  int walks = 0;
  const auto walk = [&] {
    ++walks;
    return std::vector<routing::Step>{{.function = static_cast<uint64_t>(walks)}};
  };
  const FunctionName one{kDefaultTenant, "one"};
  const FunctionName two{kDefaultTenant, "two"};
  EXPECT_EQ(known.of(one, 1, walk).at(0).function, 1U);
  EXPECT_EQ(known.of(one, 1, walk).at(0).function, 1U);
  EXPECT_EQ(known.of(two, 1, walk).at(0).function, 2U);
  EXPECT_EQ(known.of(one, 1, walk).at(0).function, 1U);
  EXPECT_EQ(walks, 2);
  EXPECT_EQ(known.of(one, 2, walk).at(0).function, 3U) << "a step may need more than before";
  EXPECT_EQ(known.of(two, 2, walk).at(0).function, 4U);
}

}  // namespace
}  // namespace lambent::cluster
