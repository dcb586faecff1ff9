#include "decide/scheduling/overload_watch.h"

#include <gtest/gtest.h>

#include <deque>

#include "decide/scheduling/admission.h"

namespace lambent::scheduling {
namespace {

constexpr Duration kRun = milliseconds(50);

// One function whose runs take 50 ms, two at once, beside a clock.
class World {
 public:
  World() { flow_.execution = RunningMean(kRun, 100); }

  // One comes; whether it is judged to be part of an overload.
  bool offer() {
    watch_.offered(flow_, now_);
    if (watch_.is_suspect(flow_, now_)) watch_.judge(watch_.turn_of(flow_, 2), now_);
    if (!watch_.overloaded() || OverloadWatch::has_room(flow_, kRun / 2, false)) {
      queue_.push_back(now_);
      count();
    }
    return watch_.overloaded();
  }
  void offer_many(int count) {
    for (int i = 0; i < count; ++i) offer();
  }
  // Time passes; two at once are served.
  void pass(Duration time) {
    const Instant end = now_ + time;
    for (; next_ <= end; next_ += kRun / 2) {
      now_ = std::max(now_, next_);
      if (queue_.empty()) continue;
      queue_.pop_front();
      watch_.served();
      count();
      if (queue_.empty()) watch_.emptied(now_);
    }
    now_ = end;
  }
  // So many a second for so long; whether there was an overload.
  bool load(double per_second, Duration time) {
    bool found = false;
    const Instant end = now_ + time;
    while (now_ < end) {
      found = offer() || found;
      pass(from_seconds(1 / per_second));
    }
    return found;
  }
  size_t waiting() const { return queue_.size(); }
  OverloadWatch& watch() { return watch_; }
  Flow& flow() { return flow_; }

 private:
  void count() {
    flow_.pending = static_cast<uint32_t>(queue_.size());
    if (!queue_.empty()) flow_.oldest_since = queue_.front();
  }

  Flow flow_;
  OverloadWatch watch_;
  std::deque<Instant> queue_;
  Instant now_ = Instant(seconds(1));
  Instant next_ = now_;
};

TEST(OverloadWatch, TenTimesTheLoadIsFoundBeforeTheWaitIsTenRuns) {
  World world;
  EXPECT_TRUE(world.load(400, 10 * kRun));
}

TEST(OverloadWatch, ALittleMoreThanCanBeServedIsFoundInTheEnd) {
  World world;
  EXPECT_TRUE(world.load(50, seconds(20)));
}

TEST(OverloadWatch, LessThanCanBeServedIsNoOverload) {
  World world;
  EXPECT_FALSE(world.load(32, seconds(60)));
}

TEST(OverloadWatch, ABurstOfHundredsThatIsOverIsNoOverload) {
  World world;
  world.offer_many(300);
  EXPECT_FALSE(world.load(12, seconds(10))) << "what comes while the burst is served";
}

TEST(OverloadWatch, ABurstAmongOrdinaryWorkIsNoOverload) {
  World world;
  world.load(12, seconds(5));
  world.offer_many(100);
  EXPECT_FALSE(world.load(12, seconds(10)));
}

TEST(OverloadWatch, ClientsThatAskAgainOnceAnsweredAreOneIfTheyAreTooMany) {
  World world;
  world.offer_many(20);
  bool found = false;
  for (int i = 0; i < 100 && !found; ++i) {
    world.pass(kRun / 2);
    found = world.offer();
  }
  EXPECT_TRUE(found);
}

TEST(OverloadWatch, ItLastsUntilTheQueueHasBeenEmptyForAWhile) {
  World world;
  ASSERT_TRUE(world.load(400, seconds(1)));
  while (world.waiting() > 0) world.pass(kRun);
  EXPECT_TRUE(world.offer()) << "just now";
  world.pass(seconds(1));
  EXPECT_FALSE(world.offer());
}

TEST(OverloadWatch, ClientsOfAFastFunctionMayWaitForAMachineThatStandsStill) {
  OverloadWatch watch;
  Flow flow;
  flow.execution = RunningMean(microseconds(300), 100);
  flow.pending = 95;
  const Instant begun(seconds(1));
  flow.oldest_since = begun - milliseconds(1);
  for (int i = 0; i < 96; ++i) watch.offered(flow, begun);
  EXPECT_FALSE(watch.is_suspect(flow, begun + milliseconds(20)));
  EXPECT_TRUE(OverloadWatch::has_room(flow, microseconds(300), false)) << "all 96 within three runs";
}

TEST(OverloadWatch, AFunctionThatHasNeverRunIsNotOverloaded) {
  World world;
  world.flow().execution = {};
  EXPECT_FALSE(world.load(400, seconds(3)));
}

TEST(OverloadWatch, OneMayAlwaysWaitSoThatNoPlaceStaysFree) {
  Flow flow;
  flow.execution = RunningMean(kRun, 100);
  EXPECT_TRUE(OverloadWatch::has_room(flow, seconds(100), false));
  flow.pending = 1;
  EXPECT_FALSE(OverloadWatch::has_room(flow, seconds(100), false));
}

TEST(OverloadWatch, AClientThatWasToldToComeAgainFindsMoreRoom) {
  Flow flow;
  flow.execution = RunningMean(kRun, 100);
  flow.pending = 4;
  EXPECT_FALSE(OverloadWatch::has_room(flow, kRun, false));
  EXPECT_TRUE(OverloadWatch::has_room(flow, kRun, true));
  flow.pending = 6;
  EXPECT_FALSE(OverloadWatch::has_room(flow, kRun, true));
}

TEST(OverloadWatch, EachThatIsRefusedIsPromisedATurnOfItsOwn) {
  OverloadWatch watch;
  const Instant now(seconds(100));
  EXPECT_EQ(watch.promise(milliseconds(25), now), milliseconds(25));
  EXPECT_EQ(watch.promise(milliseconds(25), now), milliseconds(50));
  EXPECT_EQ(watch.promise(milliseconds(25), now + milliseconds(50)), milliseconds(25));
  for (int i = 0; i < 1000; ++i) watch.promise(milliseconds(25), now);
  EXPECT_EQ(watch.promise(milliseconds(25), now), kFurthestPromise);
  EXPECT_EQ(watch.promise(seconds(1000), now), kLongestRetryAfter);
}

}  // namespace
}  // namespace lambent::scheduling
