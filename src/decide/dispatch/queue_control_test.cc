#include "decide/dispatch/queue_control.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "decide/dispatch/dispatcher.h"
#include "decide/scheduling/make_policy.h"

namespace lambent::dispatch {
namespace {

constexpr Duration kRun = milliseconds(50);
constexpr FunctionId kF{1};
constexpr FunctionId kG{2};

DispatchOptions learnt(Duration max_queue_time = scheduling::kLearntQueueTime) {
  DispatchOptions options;
  options.fleet.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(16)}};
  options.queue_wait = seconds(10);
  options.max_queue_time = max_queue_time;
  return options;
}

struct Ended {
  uint64_t number = 0;
  Outcome outcome = Outcome::kSucceeded;
  Duration waited{};
  Duration retry_after{};
  std::string error_type;
};

// A worker with one GPU that runs two at once, each for as long as its function takes.
class Node {
 public:
  explicit Node(DispatchOptions options = learnt()) : Node(std::move(options), "mqfq-sticky") {}
  Node(DispatchOptions options, const char* policy)
      : options_(options), dispatcher_(options, scheduling::make_policy(policy).value()) {}

  void deploy(FunctionId function, Duration takes = kRun, Duration max_queue_time = {},
              Duration learnt = kRun) {
    takes_[function.value] = takes;
    handle(FunctionRegistered{{.id = function,
                               .tenant = TenantId{1},
                               .max_concurrency = 2,
                               .device_memory = Bytes::gib(1),
                               .mean_execution = learnt,
                               .completed = learnt > Duration(0) ? 64u : 0u,
                               .max_queue_time = max_queue_time}});
  }
  uint64_t submit(FunctionId function, bool promised = false, bool asynchronous = false) {
    ++number_;
    function_of_.push_back(function);
    handle(InvocationSubmitted{.invocation = {0, number_},
                               .function = function,
                               .asynchronous = asynchronous,
                               .acknowledged = asynchronous,
                               .promised = promised});
    return number_;
  }
  // Everything that is due until then happens.
  void pass(Duration time) {
    const Instant end = now_ + time;
    for (;;) {
      const auto run = runs_.begin();
      const bool wakes = wake_ <= end && (run == runs_.end() || wake_ <= run->first);
      if (!wakes && (run == runs_.end() || run->first > end)) break;
      now_ = std::max(now_, wakes ? wake_ : run->first);
      if (wakes) {
        wake_ = kNever;
        handle(TimerFired{});
        continue;
      }
      const Event event = run->second;
      runs_.erase(run);
      handle(event);
    }
    now_ = end;
  }
  // So many a second for so long.
  void load(FunctionId function, double per_second, Duration time) {
    const Instant end = now_ + time;
    while (now_ < end) {
      submit(function);
      pass(from_seconds(1 / per_second));
    }
  }
  size_t count(Outcome outcome) const {
    size_t count = 0;
    for (const Ended& each : ended_) count += each.outcome == outcome ? 1 : 0;
    return count;
  }
  const std::vector<Ended>& ended() const { return ended_; }
  const Ended* end_of(uint64_t number) const {
    for (const Ended& each : ended_) {
      if (each.number == number) return &each;
    }
    return nullptr;
  }
  Dispatcher& dispatcher() { return dispatcher_; }
  const DispatchOptions& options() const { return options_; }
  Instant now() const { return now_; }

 private:
  void handle(const Event& event) {
    std::vector<Action> actions;
    dispatcher_.handle(event, now_, actions);
    for (const Action& action : actions) take(action);
  }
  void take(const Action& action) {
    if (const auto* start = std::get_if<StartSandbox>(&action)) {
      runs_.emplace(now_ + milliseconds(200), SandboxReady{start->sandbox, milliseconds(200)});
    } else if (const auto* run = std::get_if<StartInvocation>(&action)) {
      const FunctionId function = function_of_[run->invocation.low - 1];
      const Duration takes = takes_[function.value];
      runs_.emplace(now_ + takes, InvocationFinished{run->invocation, takes, true});
    } else if (const auto* stop = std::get_if<StopSandbox>(&action)) {
      runs_.emplace(now_ + milliseconds(1), SandboxExited{stop->sandbox});
    } else if (const auto* wake = std::get_if<WakeAt>(&action)) {
      wake_ = wake->instant;
    } else if (const auto* end = std::get_if<CompleteInvocation>(&action)) {
      ended_.push_back({end->invocation.low, end->outcome, end->phases.queue, end->retry_after,
                        end->error_type});
    }
  }

  DispatchOptions options_;
  Dispatcher dispatcher_;
  Instant now_ = Instant(seconds(1));
  Instant wake_ = kNever;
  std::multimap<Instant, Event> runs_;
  std::map<uint32_t, Duration> takes_;
  std::vector<FunctionId> function_of_;
  uint64_t number_ = 0;
  std::vector<Ended> ended_;
};

Duration longest_wait(const Node& node) {
  Duration longest{};
  for (const Ended& each : node.ended()) {
    if (each.outcome == Outcome::kSucceeded) longest = std::max(longest, each.waited);
  }
  return longest;
}

TEST(QueueControl, AtTenTimesTheLoadWhatIsServedWaitedForLessThanNineRuns) {
  Node node;
  node.deploy(kF);
  node.load(kF, 400, seconds(10));
  EXPECT_LT(longest_wait(node), 9 * kRun);
  EXPECT_GT(node.count(Outcome::kSucceeded), 380u) << "of 400 that ten seconds have room for";
}

TEST(QueueControl, ItServesAsManyAsItWouldWithoutABound) {
  Node bounded;
  Node unbounded(learnt(scheduling::kNoQueueTime));
  for (Node* node : {&bounded, &unbounded}) {
    node->deploy(kF);
    node->load(kF, 400, seconds(10));
  }
  EXPECT_GE(bounded.count(Outcome::kSucceeded) + 1, unbounded.count(Outcome::kSucceeded));
  EXPECT_GT(longest_wait(unbounded), seconds(5)) << "for comparison";
}

TEST(QueueControl, FunctionsThatFloodBesideEachOtherWaitNoLonger) {
  Node node;
  node.deploy(kF);
  node.deploy(kG);
  for (int i = 0; i < 4000; ++i) {
    node.submit(i % 2 == 0 ? kF : kG);
    node.pass(milliseconds(2));
  }
  EXPECT_LT(longest_wait(node), 9 * kRun);
}

TEST(QueueControl, AFunctionThatHasNeverRunIsBoundOnceItHas) {
  Node node;
  node.deploy(kF, kRun, {}, Duration(0));
  node.load(kF, 400, seconds(10));
  Duration longest{};
  for (const Ended& each : node.ended()) {
    if (each.outcome == Outcome::kSucceeded && each.number > 400) {
      longest = std::max(longest, each.waited);
    }
  }
  EXPECT_LT(longest, 9 * kRun);
}

TEST(QueueControl, ABurstIsServedToTheLast) {
  Node node;
  node.deploy(kF);
  for (int i = 0; i < 150; ++i) node.submit(kF);
  node.load(kF, 10, seconds(5));
  node.pass(seconds(5));
  EXPECT_EQ(node.count(Outcome::kRejected), 0u);
}

TEST(QueueControl, WhatIsAskedForDuringAFirstColdStartIsServed) {
  Node node;
  node.deploy(kF, kRun, {}, Duration(0));
  node.load(kF, 20, seconds(5));
  node.pass(seconds(5));
  EXPECT_EQ(node.count(Outcome::kRejected), 0u);
}

TEST(QueueControl, AFunctionWithinItsShareIsNotRefusedBesideAFlood) {
  Node node;
  node.deploy(kF);
  node.deploy(kG);
  std::set<uint64_t> modest;
  for (int i = 0; i < 4000; ++i) {
    node.submit(kF);
    if (i % 80 == 0) modest.insert(node.submit(kG));
    node.pass(milliseconds(2));
  }
  for (const Ended& each : node.ended()) {
    if (!modest.contains(each.number)) continue;
    EXPECT_EQ(each.outcome, Outcome::kSucceeded) << each.number;
  }
}

TEST(QueueControl, AsynchronousInvocationsWaitAsLongAsTheyMust) {
  Node node;
  node.deploy(kF);
  std::set<uint64_t> later;
  for (int i = 0; i < 50; ++i) later.insert(node.submit(kF, false, true));
  node.load(kF, 400, seconds(5));
  node.pass(seconds(20));
  size_t served = 0;
  for (const Ended& each : node.ended()) {
    if (later.contains(each.number)) served += each.outcome == Outcome::kSucceeded ? 1 : 0;
  }
  EXPECT_EQ(served, later.size());
}

TEST(QueueControl, WhoComesWhenItWasToldGetsInWhileTheFloodGoesOn) {
  Node node;
  node.deploy(kF);
  node.load(kF, 400, seconds(2));
  size_t asked = 0;
  size_t got_in = 0;
  std::multimap<Instant, bool> due;
  for (int i = 0; i < 12'000; ++i) {
    while (!due.empty() && due.begin()->first <= node.now()) {
      due.erase(due.begin());
      const uint64_t number = node.submit(kF, true);
      const Ended* end = node.end_of(number);
      ++asked;
      got_in += end == nullptr || end->outcome == Outcome::kSucceeded ? 1 : 0;
    }
    const uint64_t number = node.submit(kF);
    const Ended* end = node.end_of(number);
    // One in a hundred of those that are refused comes again.
    if (end != nullptr && end->outcome == Outcome::kRejected && i % 100 == 0) {
      due.emplace(node.now() + end->retry_after, true);
    }
    node.pass(milliseconds(2));
  }
  ASSERT_GT(asked, 10u);
  EXPECT_GE(got_in * 20, asked * 19) << got_in << " of " << asked;
}

TEST(QueueControl, ATimeThatTheOwnerStatesHoldsInsteadOfWhatWasLearnt) {
  Node node;
  node.deploy(kF, kRun, seconds(60));
  for (int i = 0; i < 1000; ++i) node.submit(kF);
  EXPECT_EQ(node.count(Outcome::kRejected), 0u) << "25 seconds of work";
  node.load(kF, 400, seconds(10));
  EXPECT_GT(node.count(Outcome::kRejected), 100u);
}

TEST(QueueControl, OneThatHasWaitedForTheStatedTimeIsGivenUp) {
  Node node;
  node.deploy(kF, seconds(3), seconds(1));
  for (int i = 0; i < 4; ++i) node.submit(kF);
  node.pass(seconds(2));
  ASSERT_EQ(node.count(Outcome::kRejected), 2u);
  EXPECT_EQ(node.ended().front().error_type, "Overload.GivenUp");
  EXPECT_GE(node.ended().front().retry_after, seconds(1));
}

TEST(QueueControl, ZeroSwitchesItOffForAFunction) {
  Node node;
  node.deploy(kF, kRun, scheduling::kNoQueueTime);
  node.load(kF, 400, seconds(3));
  EXPECT_GT(longest_wait(node), seconds(1));
}

TEST(QueueControl, GoesOnAfterARestoreAsItWas) {
  Node node;
  node.deploy(kF);
  node.load(kF, 400, seconds(2));
  Dispatcher other(node.options(), scheduling::make_policy("mqfq-sticky").value());
  ASSERT_TRUE(other.restore(node.dispatcher().snapshot()));
  EXPECT_EQ(other.snapshot(), node.dispatcher().snapshot());
  std::vector<Action> one;
  std::vector<Action> two;
  const InvocationSubmitted next{{0, 1'000'000}, kF};
  node.dispatcher().handle(next, node.now(), one);
  other.handle(next, node.now(), two);
  EXPECT_EQ(other.log_hash(), node.dispatcher().log_hash());
}

TEST(QueueControl, WithoutItASnapshotIsWhatItWas) {
  Node off(learnt(scheduling::kNoQueueTime));
  off.deploy(kF);
  off.load(kF, 400, seconds(1));
  Dispatcher other(off.options(), scheduling::make_policy("mqfq-sticky").value());
  const std::string bytes = off.dispatcher().snapshot();
  ASSERT_TRUE(other.restore(bytes));
  EXPECT_EQ(other.snapshot(), bytes);
}

}  // namespace
}  // namespace lambent::dispatch
