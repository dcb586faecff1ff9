#include "decide/scheduling/rounds.h"

#include <gtest/gtest.h>

#include <string>

namespace lambent::scheduling {
namespace {

Flow waiting(uint32_t pending, Duration cold_start) {
  Flow flow;
  flow.pending = pending;
  flow.cold_start = RunningMean(cold_start, 1);
  return flow;
}

TEST(Rounds, AreTwiceWhatWaitsIfThatIsMoreThanT) {
  Rounds rounds(seconds(20), true, {});
  EXPECT_EQ(rounds.longer(0), seconds(0));
  rounds.count(FunctionId{1}, waiting(3, seconds(2)), seconds(1), 0);
  EXPECT_EQ(rounds.longer(0), seconds(0));
  rounds.count(FunctionId{2}, waiting(4, seconds(5)), seconds(2), 0);
  EXPECT_EQ(rounds.longer(0), seconds(2 * (5 + 13) - 20));
  rounds.count(FunctionId{1}, waiting(0, seconds(2)), seconds(1), 0);
  EXPECT_EQ(rounds.longer(0), seconds(2 * 13 - 20));
}

TEST(Rounds, CountNoMoreThanTOfOneFlowAndTenTimesTOfAll) {
  Rounds rounds(seconds(20), true, {});
  rounds.count(FunctionId{1}, waiting(4'000'000'000, seconds(2)), std::chrono::hours(1), 0);
  EXPECT_EQ(rounds.longer(0), seconds(40 - 20));
  for (uint32_t i = 2; i < 20; ++i) {
    rounds.count(FunctionId{i}, waiting(100, seconds(2)), seconds(1), 0);
  }
  EXPECT_EQ(rounds.longer(0), seconds(200 - 20));
}

TEST(Rounds, AreOfEachTenant) {
  Rounds rounds(seconds(20), true, {});
  rounds.count(FunctionId{1}, waiting(15, seconds(2)), seconds(1), 0);
  rounds.count(FunctionId{2}, waiting(15, seconds(3)), seconds(1), 3);
  EXPECT_EQ(rounds.longer(0), seconds(34 - 20));
  EXPECT_EQ(rounds.longer(1), seconds(0));
  EXPECT_EQ(rounds.longer(3), seconds(36 - 20));
  rounds.count(FunctionId{1}, waiting(15, seconds(2)), seconds(1), 3);
  EXPECT_EQ(rounds.longer(0), seconds(0));
  EXPECT_EQ(rounds.longer(3), seconds(70 - 20));
}

TEST(Rounds, AFunctionThatNeverStartedIsTakenToNeedATwentiethOfT) {
  Rounds rounds(seconds(20), true, {});
  Flow flow;
  flow.pending = 12;
  rounds.count(FunctionId{1}, flow, seconds(1), 0);
  EXPECT_EQ(rounds.longer(0), seconds(26 - 20));
}

TEST(Rounds, ThatAreNotFollowedLeaveTAsItIs) {
  Rounds rounds(seconds(20), false, {});
  rounds.count(FunctionId{1}, waiting(100, seconds(2)), seconds(1), 0);
  EXPECT_EQ(rounds.longer(0), seconds(0));
}

TEST(Rounds, CountWhatWaitsWhereThatIsAskedFor) {
  Rounds rounds(seconds(20), true, seconds(20));
  rounds.count(FunctionId{1}, waiting(15, seconds(2)), seconds(1), 1);
  rounds.count(FunctionId{2}, waiting(3, seconds(2)), seconds(2), 0);
  EXPECT_EQ(rounds.waiting(), 18u);
  EXPECT_EQ(rounds.scale(1), 1u);
  EXPECT_FALSE(rounds.scale_again(1, 1)) << "15 s of runs by themselves, without set-ups";
  rounds.count(FunctionId{1}, waiting(150, seconds(2)), seconds(1), 1);
  EXPECT_TRUE(rounds.scale_again(1, 1));
  EXPECT_EQ(rounds.scale(1), 3u) << "half of 150 s is 3 times 20 s";
  EXPECT_EQ(rounds.scale(0), 1u);
  std::string bytes;
  StateArchive to(&bytes);
  rounds.archive(to, 3);
  Rounds restored(seconds(20), true, seconds(20));
  StateArchive from(bytes);
  restored.archive(from, 3);
  ASSERT_TRUE(from.complete());
  restored.find_again({0, 1, 0});
  EXPECT_EQ(restored.waiting(), 153u);
  EXPECT_EQ(restored.scale(1), 3u);
  EXPECT_TRUE(restored.scale_again(1, 2));
  EXPECT_EQ(restored.scale(1), 1u) << "two devices";
  rounds.count(FunctionId{1}, waiting(0, seconds(2)), seconds(1), 1);
  EXPECT_EQ(rounds.waiting(), 3u);
  EXPECT_TRUE(rounds.scale_again(1, 1));
  Rounds not_counted(seconds(20), true, {});
  not_counted.count(FunctionId{1}, waiting(15, seconds(2)), seconds(1), 1);
  EXPECT_EQ(not_counted.waiting(), 0u);
}

TEST(Rounds, ChangeTheirScaleOnceWhileABacklogHoversAboutAStep) {
  Rounds rounds(seconds(20), true, seconds(20));
  const auto scales_with = [&](uint32_t pending) {
    rounds.count(FunctionId{1}, waiting(pending, seconds(2)), seconds(1), 0);
    return rounds.scale_again(0, 1);
  };
  int changes = 0;
  for (int i = 0; i < 100; ++i) changes += scales_with(79 + i % 3);
  EXPECT_EQ(changes, 1) << "each ranks all that waits again";
  EXPECT_EQ(rounds.scale(0), 2u);
  EXPECT_FALSE(scales_with(70));
  EXPECT_TRUE(scales_with(69));
  EXPECT_EQ(rounds.scale(0), 1u);
}

TEST(Rounds, DoNotCountWhatWaitsOfATenantThatIsHeld) {
  Rounds rounds(seconds(20), true, seconds(20));
  rounds.count(FunctionId{1}, waiting(15, seconds(2)), seconds(1), 1);
  rounds.count(FunctionId{2}, waiting(3, seconds(2)), seconds(2), 0);
  rounds.hold(1, true);
  EXPECT_EQ(rounds.waiting(), 3u);
  rounds.hold(1, true);
  rounds.count(FunctionId{1}, waiting(20, seconds(2)), seconds(1), 1);
  EXPECT_EQ(rounds.waiting(), 3u);
  rounds.hold(1, false);
  EXPECT_EQ(rounds.waiting(), 23u);
  rounds.hold(1, true);
  // It becomes another tenant's.
  rounds.count(FunctionId{1}, waiting(20, seconds(2)), seconds(1), 0);
  EXPECT_EQ(rounds.waiting(), 23u);
  rounds.hold(0, true);
  EXPECT_EQ(rounds.waiting(), 0u);
}

TEST(Rounds, ComeBackFromTheirBytes) {
  Rounds rounds(seconds(20), true, {});
  rounds.count(FunctionId{1}, waiting(15, seconds(2)), seconds(1), 1);
  std::string bytes;
  StateArchive to(&bytes);
  rounds.archive(to, 2);
  Rounds restored(seconds(20), true, {});
  StateArchive from(bytes);
  restored.archive(from, 2);
  ASSERT_TRUE(from.complete());
  restored.find_again({0, 1});
  EXPECT_EQ(restored.longer(1), seconds(34 - 20));
  Rounds shorter(seconds(10), true, {});
  StateArchive of_longer(bytes);
  shorter.archive(of_longer, 2);
  EXPECT_FALSE(of_longer.complete());
}

}  // namespace
}  // namespace lambent::scheduling
