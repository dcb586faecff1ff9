#include "decide/scheduling/foresight.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace lambent::scheduling {
namespace {

constexpr FunctionId kF{1};
constexpr Duration kStart = seconds(5);

class ForesightTest : public testing::Test {
 protected:
  // Calls that are so far apart, up to now.
  void call(double gap_s, int times) {
    for (int i = 0; i < times; ++i) {
      if (flow_.last_arrival != kNever) now_ += from_seconds(gap_s);
      foresight_.arrived(kF, flow_, now_);
      flow_.last_arrival = now_;
    }
  }
  double chance(double silence_s, double ahead_s) const {
    return foresight_.chance(kF, flow_, seconds(60), from_seconds(ahead_s),
                             now_ + from_seconds(silence_s));
  }
  // How long after the last call it is looked at, if it has lost its sandbox after so long.
  Duration look_after(double silence_s) {
    foresight_.no_look(kF);
    foresight_.plan_look(kF, flow_, kStart, now_ + from_seconds(silence_s));
    const Instant look = foresight_.earliest_look(kNever);
    return look == kNever ? Duration::max() : look - now_;
  }

  Foresight foresight_{{}, true};
  Flow flow_;
  Instant now_{seconds(1000)};
};

TEST_F(ForesightTest, TakesAFunctionOfWhichItKnowsNothingToBeCalledAtRandom) {
  call(100, 2);
  EXPECT_NEAR(chance(0, 60), 1 - std::exp(-1), 1e-9);
  EXPECT_NEAR(chance(600, 60), 1 - std::exp(-0.1), 1e-9) << "a long silence is the gap";
}

TEST_F(ForesightTest, ExpectsACallWhereTheGapsBeforeEnded) {
  call(100, 11);
  EXPECT_LT(chance(10, 30), 0.1);
  EXPECT_GT(chance(80, 30), 0.9);
  EXPECT_LT(chance(110, 30), 0.5) << "it does not come any more, as far as is known";
}

TEST_F(ForesightTest, LooksAtAFunctionInTimeForItsStart) {
  call(100, 11);
  // 96 to 104 s is what it knows of the gaps; the window after the start is 20 s.
  EXPECT_EQ(look_after(30), seconds(104) - kStart - seconds(20));
  EXPECT_EQ(look_after(90), seconds(90)) << "at once, where that has passed";
}

TEST_F(ForesightTest, LooksAtNoFunctionOfWhichNoCallIsLikelySoon) {
  EXPECT_EQ(look_after(30), Duration::max()) << "it was never called";
  call(100, 3);
  EXPECT_EQ(look_after(30), Duration::max()) << "two gaps foretell nothing";
  call(100, 1);
  EXPECT_NE(look_after(30), Duration::max());
  EXPECT_EQ(look_after(200), Duration::max()) << "it should have come";
}

TEST_F(ForesightTest, GivesUpWhereMostGapsAreLongerThanItKnows) {
  call(100, 4);
  call(100'000, 4);
  EXPECT_EQ(look_after(30), Duration::max());
}

TEST_F(ForesightTest, TakesALookBackWhereACallComes) {
  call(100, 4);
  ASSERT_NE(look_after(30), Duration::max());
  call(40, 1);
  EXPECT_EQ(foresight_.earliest_look(kNever), kNever);
}

TEST_F(ForesightTest, ForgetsAFunctionThatIsAnother) {
  call(100, 11);
  foresight_.forget(kF);
  EXPECT_NEAR(chance(0, 60), 1 - std::exp(-1), 1e-9);
}

TEST_F(ForesightTest, OfAnOracleGoesByWhatThatSays) {
  call(100, 1);
  foresight_.ask([&](FunctionId, Instant) { return now_ + seconds(50); });
  EXPECT_EQ(look_after(10), seconds(45));
  EXPECT_NEAR(chance(10, 20), 0.5, 1e-9);
}

TEST_F(ForesightTest, IsTheSameWhereItIsRestored) {
  call(100, 11);
  foresight_.plan_look(kF, flow_, kStart, now_);
  foresight_.expect(kF, {.at = now_, .silence = seconds(1), .within = seconds(2), .chance = 0.5});
  std::string bytes;
  StateArchive to(&bytes);
  foresight_.archive(to);
  Foresight restored({}, true);
  StateArchive from(std::string_view{bytes});
  restored.archive(from);
  EXPECT_TRUE(from.complete());
  EXPECT_EQ(restored.earliest_look(kNever), foresight_.earliest_look(kNever));
  EXPECT_EQ(restored.expectation(kF).within, seconds(2));
  EXPECT_DOUBLE_EQ(restored.chance(kF, flow_, seconds(60), seconds(30), now_ + seconds(80)),
                   chance(80, 30));
}

TEST_F(ForesightTest, KnowsNothingWhereItDoesNotLearn) {
  Foresight blind({}, false);
  blind.arrived(kF, flow_, now_);
  flow_.last_arrival = now_;
  blind.plan_look(kF, flow_, kStart, now_);
  EXPECT_EQ(blind.earliest_look(kNever), kNever);
  std::string bytes;
  StateArchive to(&bytes);
  blind.archive(to);
  EXPECT_TRUE(bytes.empty()) << "journals of before have nothing of it";
}

}  // namespace
}  // namespace lambent::scheduling
