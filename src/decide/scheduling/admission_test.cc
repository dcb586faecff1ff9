#include "decide/scheduling/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace lambent::scheduling {
namespace {

constexpr QueueLimits kLimits{
    .per_function = 10'000, .all = 100'000, .synchronous = 8'000, .wait = seconds(10)};

// A flow with so many waiting, whose turns have come this often so far.
Flow flow_with(uint32_t pending, Duration turn = {}, uint64_t turns = kTurnsToBelieve) {
  Flow flow;
  flow.registered = true;
  flow.pending = pending;
  flow.pending_synchronous = pending;
  if (turn > Duration(0)) flow.turns = RunningMean(turn, turns);
  return flow;
}

bool admits(const Flow& flow, const QueueTotals& waiting = {},
            const QueueLimits& limits = kLimits) {
  return !refusal_of({}, queue_of(flow), waiting, limits).has_value();
}

TEST(Admission, AQueueIsAsLongAsWhatIsServedInTime) {
  EXPECT_TRUE(admits(flow_with(200, milliseconds(50))));
  EXPECT_FALSE(admits(flow_with(201, milliseconds(50))));
  EXPECT_TRUE(admits(flow_with(50, milliseconds(200))));
  EXPECT_FALSE(admits(flow_with(51, milliseconds(200))))
      << "a quarter of the share, a quarter of it";
}

TEST(Admission, ARefusalSaysWhyAndWhenHalfOfTheQueueIsGone) {
  const auto refusal = refusal_of({}, queue_of(flow_with(300, milliseconds(50))), {}, kLimits);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->message,
            "the function has 300 invocations waiting, which take about 15.0 seconds at its share "
            "of this worker; one more would wait for longer than 10.0 (queue_wait_s)");
  EXPECT_EQ(refusal->retry_after, milliseconds(7500));
}

TEST(Admission, ABurstOfLongRunsWaits) {
  EXPECT_TRUE(admits(flow_with(kAlwaysAdmitted - 1, seconds(60))));
  EXPECT_FALSE(admits(flow_with(kAlwaysAdmitted, seconds(60))));
}

TEST(Admission, BeforeTurnsAreKnownItGoesOnAsItGoesNow) {
  Flow flow = flow_with(100);
  EXPECT_TRUE(admits(flow)) << "nothing is known of it";
  flow.execution = RunningMean(milliseconds(200), 1);
  EXPECT_FALSE(admits(flow));
  flow.in_flight = 2;
  EXPECT_TRUE(admits(flow)) << "two at a time";
  flow.in_flight = 0;
  flow.has_cpu_variant = true;
  EXPECT_TRUE(admits(flow)) << "the host may take any number of them";
  flow.turns = RunningMean(milliseconds(200), kTurnsToBelieve - 1);
  EXPECT_TRUE(admits(flow)) << "too few";
  flow.turns = RunningMean(milliseconds(200), kTurnsToBelieve);
  EXPECT_FALSE(admits(flow));
}

TEST(Admission, OnlyTurnsWithOthersWaitingAreMeasured) {
  Flow flow;
  Instant now{};
  const auto serve = [&](uint32_t left) {
    flow.took_turn(now);
    flow.pending = left;
    if (left == 0) flow.last_turn = kNever;  // as dispatch does
  };
  serve(0);
  now += seconds(100);
  serve(2);
  EXPECT_FALSE(flow.turns.known());
  now += seconds(3);
  serve(1);
  now += seconds(5);
  serve(0);
  EXPECT_EQ(flow.turns.mean(), seconds(4));
}

TEST(Admission, AsynchronousOnesWaitAsLongAsTheyMust) {
  const Newcomer later{.asynchronous = true};
  EXPECT_FALSE(
      refusal_of(later, queue_of(flow_with(9'000, seconds(60))), {.synchronous = 8'000}, kLimits));
  EXPECT_TRUE(refusal_of(later, queue_of(flow_with(10'000)), {}, kLimits));
}

TEST(Admission, AsynchronousOnesTakeNoRoomOfThoseWhoseClientsWait) {
  Flow flow = flow_with(9'000);
  flow.pending_synchronous = 1;
  EXPECT_TRUE(admits(flow, {.all = 9'000, .synchronous = 1}));
  flow.pending_synchronous = 4'000;
  const auto refusal =
      refusal_of({}, queue_of(flow), {.all = 9'000, .synchronous = 4'000}, kLimits);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->message,
            "the worker has 4000 invocations waiting, 4000 of this function, which leaves no room "
            "for more of it (queued_synchronous)");
}

TEST(Admission, WhatWasMeasuredLongAgoIsForgottenOnceTheQueueBeginsAnew) {
  Flow flow;
  Instant now{};
  for (uint64_t i = 0; i <= kTurnsToBelieve; ++i, now += seconds(3)) flow.took_turn(now);
  now -= seconds(3);
  EXPECT_EQ(turn_estimate(flow), seconds(3));
  flow.last_turn = kNever;  // as dispatch does when nothing waits
  flow.begin_queue(now + Flow::kTurnsStand);
  EXPECT_EQ(turn_estimate(flow), seconds(3)) << "just now";
  // One that comes and is served at once has waited for no other.
  flow.took_turn(now + Flow::kTurnsStand);
  flow.last_turn = kNever;
  flow.begin_queue(now + Flow::kTurnsStand + seconds(1));
  EXPECT_EQ(turn_estimate(flow), Duration(0));
}

TEST(Admission, NoBoundOnTheWaitRefusesNobodyForIt) {
  QueueLimits limits = kLimits;
  limits.wait = QueueLimits::kForever;
  EXPECT_TRUE(admits(flow_with(7'999, std::chrono::hours(10)), {}, limits));
}

TEST(Admission, RefusalsOfAnEndlessQueueAskForFiveMinutes) {
  const auto refusal =
      refusal_of({}, queue_of(flow_with(9'999, std::chrono::hours(100'000))), {}, kLimits);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->retry_after, kLongestRetryAfter);
}

TEST(Admission, PayloadsLeaveRoomForOthersAndSayWhenToComeBack) {
  const QueueLimits limits{.payloads = Bytes(1000)};
  FunctionQueue queue{.waiting = 10, .payloads = Bytes(400), .turn = seconds(2)};
  const auto refused = [&](Bytes payload, Bytes all) {
    return refusal_of({.asynchronous = true, .payload = payload}, queue, {.payloads = all}, limits);
  };
  EXPECT_FALSE(refused(Bytes(400), Bytes(600)));
  EXPECT_TRUE(refused(Bytes(401), Bytes(600))) << "it does not fit";
  const auto flood = refused(Bytes(1), Bytes(601));
  ASSERT_TRUE(flood) << "it has more than is left for anybody else";
  EXPECT_EQ(flood->retry_after, seconds(10));
  EXPECT_NE(flood->message.find("the 1000 B that there are for them"), std::string::npos)
      << flood->message;
  queue = {};
  EXPECT_FALSE(refused(Bytes(399), Bytes(601)));
  const auto full = refused(Bytes(1), Bytes(1000));
  ASSERT_TRUE(full);
  EXPECT_EQ(full->retry_after, seconds(1)) << "of its own nothing waits";
}

TEST(Admission, OnlyTheLimitsThatAreSetRefuse) {
  const FunctionQueue queue{.waiting = 1'000'000, .synchronous = 1'000'000, .turn = seconds(9)};
  EXPECT_FALSE(refusal_of({}, queue, {.all = 1'000'000, .synchronous = 1'000'000}, {}));
}

// Functions that flood fill queues until each is refused; one that comes then still finds room, and
// none has more than the others.
TEST(Admission, FloodsLeaveRoomForOthersAndEqualQueuesToEachOther) {
  for (const size_t floods : {1, 2, 3, 10, 100}) {
    std::vector<Flow> flows(floods, flow_with(0));
    const QueueLimits limits{.per_function = 10'000, .all = 100'000, .synchronous = 1'000};
    size_t waiting = 0;
    for (size_t before = 1; before != waiting;) {
      before = waiting;
      for (Flow& flow : flows) {
        if (!admits(flow, {waiting, waiting}, limits)) continue;
        ++flow.pending;
        ++flow.pending_synchronous;
        ++waiting;
      }
    }
    const auto [least, most] = std::minmax_element(
        flows.begin(), flows.end(),
        [](const Flow& one, const Flow& other) { return one.pending < other.pending; });
    EXPECT_LE(most->pending - least->pending, 1u) << floods;
    EXPECT_NEAR(static_cast<double>(most->pending), 1'000.0 / static_cast<double>(floods + 1), 1)
        << floods;
    EXPECT_TRUE(admits(flow_with(0), {waiting, waiting}, limits)) << floods;
  }
}

}  // namespace
}  // namespace lambent::scheduling
