#include "decide/scheduling/make_policy.h"

#include <gtest/gtest.h>

namespace lambent::scheduling {
namespace {

TEST(MakePolicy, EveryNameMakesAPolicyOfThatName) {
  for (const std::string_view name : policy_names()) {
    const auto policy = make_policy(name);
    ASSERT_TRUE(policy.ok()) << name;
    EXPECT_EQ((*policy)->name(), name);
  }
}

TEST(MakePolicy, AnUnknownNameIsRefusedWithTheListOfThoseThatExist) {
  const auto policy = make_policy("lottery");
  ASSERT_FALSE(policy.ok());
  EXPECT_EQ(policy.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(policy.error().message.find("lottery"), std::string::npos);
  EXPECT_NE(policy.error().message.find("mqfq-sticky"), std::string::npos);
}

TEST(RunningMean, IsTheMeanAtFirstAndFollowsLater) {
  RunningMean mean;
  EXPECT_EQ(mean.mean_or(seconds(7)), seconds(7));
  mean.learn(seconds(2));
  mean.learn(seconds(4));
  EXPECT_EQ(mean.mean(), seconds(3));
  for (int i = 0; i < 1000; ++i) mean.learn(seconds(10));
  EXPECT_GT(mean.mean(), milliseconds(9990));
}

}  // namespace
}  // namespace lambent::scheduling
