#include "sim/simulator/timeline.h"

#include <gmock/gmock.h>

namespace lambent::simulator {
namespace {

using testing::ElementsAre;

class TimelineTest : public testing::Test {
 protected:
  std::function<void()> note(int what) {
    return [this, what] { happened_.push_back(what); };
  }
  void run() {
    while (timeline_.next() != kNever) timeline_.run_next();
  }
  Timeline timeline_;
  std::vector<int> happened_;
};

TEST_F(TimelineTest, ThingsHappenInTheOrderOfTheirInstantsAndThenOfTheCalls) {
  timeline_.after(seconds(2), note(3));
  timeline_.after(seconds(1), note(1));
  timeline_.at(Instant(seconds(1)), note(2));
  EXPECT_EQ(timeline_.next(), Instant(seconds(1)));
  run();
  EXPECT_THAT(happened_, ElementsAre(1, 2, 3));
  EXPECT_EQ(timeline_.now(), Instant(seconds(2)));
}

TEST_F(TimelineTest, WhatHappensMayPlanMore) {
  timeline_.after(seconds(1), [this] {
    timeline_.after(seconds(1), note(2));
    timeline_.after(seconds(0), note(1));
  });
  run();
  EXPECT_THAT(happened_, ElementsAre(1, 2));
  EXPECT_EQ(timeline_.now(), Instant(seconds(2)));
}

TEST_F(TimelineTest, WhatIsDueWhileTimePassesHappensLateAndTimeNeverGoesBack) {
  timeline_.after(seconds(1), note(1));
  timeline_.pass(seconds(10));
  timeline_.at(Instant(seconds(3)), note(2));  // which has passed
  timeline_.pass_until(Instant(seconds(4)));
  EXPECT_EQ(timeline_.now(), Instant(seconds(10)));
  run();
  EXPECT_THAT(happened_, ElementsAre(1, 2));
  EXPECT_EQ(timeline_.now(), Instant(seconds(10)));
}

}  // namespace
}  // namespace lambent::simulator
