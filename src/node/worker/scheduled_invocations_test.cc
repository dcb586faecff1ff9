#include "node/worker/scheduled_invocations.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/random.h"
#include "node/worker/testing/testing.h"

namespace lambent::worker {
namespace {

using nlohmann::json;
using std::chrono::hours;
using std::chrono::minutes;

// Whose wall can be set, as an operator or NTP does.
class SettableClock final : public Clock {
 public:
  Instant now() const override { return clock_.now(); }
  Duration wall_now() const override { return clock_.wall_now() + set_by_; }
  void advance(Duration by) { clock_.advance(by); }
  void set_wall(Duration by) { set_by_ += by; }

 private:
  FakeClock clock_;
  Duration set_by_{};
};

class NoLog final : public LogSink {
 public:
  void write(LogLevel, std::string_view event, std::initializer_list<LogField>) override {
    events.emplace_back(event);
  }
  bool wants(LogLevel) const override { return true; }
  std::vector<std::string> events;
};

// The catalog and the queue behind one, which outlive it.
class ScheduledInvocationsTest : public ::testing::Test {
 protected:
  void SetUp() override { start(); }

  void start() {
    scheduled.emplace(ScheduledInvocations::Dependencies{
        loop, log, drain,
        [this](const InvocationRequest& request, const ScheduledInvocations::Submitted& done) {
          if (refuses) return done(Error{ErrorCode::kResourceExhausted, "the queue is full"});
          ++submissions;
          const auto known = queue.find(request.idempotency_key);
          if (known == queue.end()) {
            InvocationRequest kept = request;
            kept.id = new_invocation_id(random);
            queue[request.idempotency_key] = kept;
          }
          InvocationResult result;
          result.id = queue[request.idempotency_key].id;
          done(result);
        },
        [this](const catalog::FiringRecord& record) {
          if (saves) saved = record;
        },
        [](TenantId, InvocationId, auto done) { done(std::optional<InvocationResult>()); }});
  }
  // As a worker that was killed: all that it knew itself is gone.
  void restart() {
    scheduled.reset();
    start();
    if (saved) scheduled->restore({*saved});
    scheduled->put(spec);
  }
  void deploy(Schedule schedule) {
    spec.id = FunctionId(7);
    spec.name = {kDefaultTenant, "f"};
    spec.schedules = {std::move(schedule)};
    spec.last_modified = clock.wall_now();
    scheduled->put(spec);
  }
  // The loop looks at its timers every second of that time.
  void pass(seconds time) {
    for (seconds passed{}; passed < time; passed += seconds(1)) {
      clock.advance(seconds(1));
      loop.run_once(Duration(0));
    }
  }
  json row() {
    json list;
    scheduled->json(kDefaultTenant, [&](const std::string& text) { list = json::parse(text); });
    return list["schedules"].at(0);
  }

  SettableClock clock;
  loop::EventLoop loop{clock};
  NoLog log;
  SeededRandom random{1};
  Drain drain{loop, [] { return true; }};
  std::map<std::string, InvocationRequest> queue;  // by key
  std::optional<catalog::FiringRecord> saved;
  bool saves = true, refuses = false;
  int submissions = 0;
  FunctionSpec spec;
  std::optional<ScheduledInvocations> scheduled;
};

TEST_F(ScheduledInvocationsTest, EachInstantIsBegunOnce) {
  deploy({.name = "often", .cron = "*/5 * * * *"});
  pass(minutes(31));
  EXPECT_EQ(queue.size(), 6u);
  EXPECT_EQ(submissions, 6);
  const InvocationRequest& one = queue.begin()->second;
  EXPECT_EQ(one.kind, InvocationKind::kAsynchronous);
  EXPECT_EQ(json::parse(one.payload)["schedule"], "often");
  EXPECT_EQ(row()["last_outcome"], "pending");
  EXPECT_EQ(row()["begun"], 6);
  EXPECT_EQ(row()["missed"], 0);
}

TEST_F(ScheduledInvocationsTest, WhatIsMeasuredOfEachIsWhatWasBegunAndMissed) {
  EXPECT_TRUE(scheduled->gauges().empty());
  deploy({.name = "often", .cron = "*/5 * * * *"});
  EXPECT_EQ(scheduled->gauges().at(0).last, std::nullopt);
  pass(minutes(31));
  refuses = true;
  pass(minutes(7));
  const auto all = scheduled->gauges();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].schedule, "often");
  EXPECT_EQ(all[0].begun, 6u);
  EXPECT_EQ(all[0].missed, 1u);
  ASSERT_TRUE(all[0].next.has_value());
  EXPECT_EQ(all[0].next->count() % 300, 0);
}

TEST_F(ScheduledInvocationsTest, ItsPayloadIsTheEvent) {
  deploy({.name = "s", .rate = "1 minute", .payload = R"({"full":true})"});
  pass(minutes(1));
  ASSERT_EQ(queue.size(), 1u);
  EXPECT_EQ(queue.begin()->second.payload, R"({"full":true})");
}

TEST_F(ScheduledInvocationsTest, AWorkerThatComesBackGoesOnAfterTheLast) {
  deploy({.name = "s", .cron = "*/5 * * * *"});
  pass(minutes(5));
  ASSERT_EQ(queue.size(), 1u);
  restart();
  pass(seconds(30));
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(submissions, 1);
  pass(minutes(5));
  EXPECT_EQ(queue.size(), 2u);
}

TEST_F(ScheduledInvocationsTest, OneThatWasKilledBetweenQueueAndRecordBeginsNothingTwice) {
  saves = false;
  deploy({.name = "s", .cron = "*/5 * * * *"});
  pass(minutes(5));
  restart();
  pass(seconds(20));
  EXPECT_EQ(submissions, 2);
  EXPECT_EQ(queue.size(), 1u);
}

TEST_F(ScheduledInvocationsTest, WhatWasMissedIsMadeUpForOnlyIfAsked) {
  for (const bool catch_up : {false, true}) {
    queue.clear();
    saved.reset();
    scheduled->remove(FunctionId(7));
    deploy({.name = "s", .cron = "0 * * * *", .catch_up = catch_up});
    scheduled.reset();
    clock.advance(hours(5) + minutes(30));  // no worker
    restart();
    pass(seconds(25));
    EXPECT_EQ(queue.size(), catch_up ? 1u : 0u);
    EXPECT_EQ(row()["missed"], 1);
    pass(hours(1));
    EXPECT_EQ(queue.size(), catch_up ? 2u : 1u);
  }
}

TEST_F(ScheduledInvocationsTest, AClockThatGoesBackABitBeginsNothingAgain) {
  deploy({.name = "s", .cron = "*/5 * * * *"});
  pass(minutes(6));
  ASSERT_EQ(queue.size(), 1u);
  clock.set_wall(-minutes(10));
  pass(minutes(10));
  EXPECT_EQ(submissions, 1);
  pass(minutes(5));
  EXPECT_EQ(queue.size(), 2u);
}

TEST_F(ScheduledInvocationsTest, AClockThatWasWrongByDaysIsFollowedOnceItIsRight) {
  clock.set_wall(hours(24 * 400));
  deploy({.name = "s", .cron = "*/5 * * * *"});
  pass(minutes(6));
  ASSERT_EQ(queue.size(), 1u);
  clock.set_wall(-hours(24 * 400));
  pass(minutes(6));
  EXPECT_GE(queue.size(), 2u);
}

TEST_F(ScheduledInvocationsTest, OneThatIsRefusedIsTriedAgainForAMinute) {
  refuses = true;
  deploy({.name = "s", .rate = "1 hour"});
  pass(hours(1));
  pass(seconds(10));
  EXPECT_EQ(row()["error"], "the queue is full");
  refuses = false;
  pass(seconds(2));
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(row()["error"], "");
  refuses = true;
  pass(hours(1) + minutes(2));
  refuses = false;
  pass(minutes(2));
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(row()["missed"], 1);
}

TEST_F(ScheduledInvocationsTest, OneAboveItsTenantsRateIsTriedAgainAndThenMissed) {
  bool admits = false;
  int counted = 0;
  scheduled->admit_by([&](TenantId tenant) -> Result<void> {
    EXPECT_EQ(tenant, kDefaultTenant);
    ++counted;
    if (admits) return {};
    return Error{ErrorCode::kResourceExhausted, "too many requests"};
  });
  deploy({.name = "s", .rate = "1 hour"});
  pass(hours(1) + seconds(10));
  EXPECT_EQ(row()["error"], "too many requests");
  EXPECT_EQ(submissions, 0);
  admits = true;
  pass(seconds(2));
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(submissions, 1);
  admits = false;
  counted = 0;
  pass(hours(1) + minutes(2));
  EXPECT_GT(counted, 1);
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(row()["missed"], 1);
}

TEST_F(ScheduledInvocationsTest, OneThatIsDueInSomeMillenniaIsNotLookedAtAllTheTime) {
  int looks = 0;
  scheduled->only_if([&] {
    ++looks;
    return true;
  });
  deploy({.name = "s", .rate = "1000000 days"});
  pass(minutes(2));
  EXPECT_EQ(looks, 6);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(row()["missed"], 0);
}

TEST_F(ScheduledInvocationsTest, OneThatIsDisabledBeginsNothingAndCountsAnewWhenItIsEnabled) {
  deploy({.name = "s", .cron = "*/5 * * * *", .catch_up = true, .enabled = false});
  pass(minutes(20));
  EXPECT_TRUE(queue.empty());
  EXPECT_TRUE(row()["next"].is_null());
  deploy({.name = "s", .cron = "*/5 * * * *", .catch_up = true});
  pass(minutes(1));
  EXPECT_TRUE(queue.empty());
  pass(minutes(5));
  EXPECT_EQ(queue.size(), 1u);
}

TEST_F(ScheduledInvocationsTest, ADeploymentThatLeavesAScheduleAsItWasMovesNothing) {
  deploy({.name = "s", .cron = "*/5 * * * *"});
  pass(minutes(4));
  const json before = row()["next"];
  deploy({.name = "s", .cron = "*/5 * * * *", .payload = "1"});
  EXPECT_EQ(row()["next"], before);
  scheduled->remove(FunctionId(7));
  pass(minutes(10));
  EXPECT_TRUE(queue.empty());
}

TEST_F(ScheduledInvocationsTest, ANodeThatIsNotTheHomeBeginsNothing) {
  bool home = false;
  scheduled->only_if([&] { return home; });
  deploy({.name = "s", .cron = "*/5 * * * *"});
  pass(minutes(12));
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(row()["missed"], 0);
  home = true;
  pass(minutes(5));
  EXPECT_EQ(queue.size(), 1u);
}

TEST_F(ScheduledInvocationsTest, WhereKeysHoldForAllWhatCameDueForALostNodeIsBegunOnceMore) {
  bool is_ours = false;
  scheduled->only_if([&] { return is_ours; }, true);
  deploy({.name = "s", .cron = "*/5 * * * *"});
  pass(minutes(5));  // one came due, for another node
  EXPECT_TRUE(queue.empty());
  is_ours = true;
  scheduled->look_again();
  pass(seconds(1));
  // If the other node had begun it, this were the same invocation.
  ASSERT_EQ(queue.size(), 1u);
  EXPECT_EQ(submissions, 1);
  scheduled->look_again();
  pass(seconds(30));
  EXPECT_EQ(submissions, 1);
  EXPECT_EQ(row()["missed"], 0);
  // What came due long before is the other's.
  is_ours = false;
  pass(minutes(5));
  pass(seconds(70));
  is_ours = true;
  scheduled->look_again();
  pass(seconds(1));
  EXPECT_EQ(submissions, 1);
}

TEST_F(ScheduledInvocationsTest, InvocationsAreSubmittedAndFoundWhereTheClusterPutsThem) {
  std::vector<InvocationRequest> routed;
  scheduled->submit_by(
      [&](InvocationRequest request, const ScheduledInvocations::Submitted& done) {
        routed.push_back(std::move(request));
        InvocationResult accepted;
        accepted.id = InvocationId{7, routed.size()};
        done(accepted);
      },
      [](TenantId, InvocationId, auto done) {
        InvocationResult ended;
        ended.outcome = Outcome::kFunctionError;
        done(std::optional<InvocationResult>(ended));
      });
  deploy({.name = "s", .cron = "*/5 * * * *"});
  pass(minutes(6));
  ASSERT_EQ(routed.size(), 1u);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(row()["last_invocation"], to_string(InvocationId{7, 1}));
  EXPECT_EQ(row()["last_outcome"], "function_error");
}

TEST_F(ScheduledInvocationsTest, TheTimeOfAllNodesCountsAndNotThisMachinesClock) {
  const Duration all = clock.wall_now();
  const Instant began = clock.now();
  bool known = false;
  scheduled->go_by([&]() -> std::optional<Duration> {
    if (!known) return std::nullopt;
    return all + (clock.now() - began);
  });
  clock.set_wall(minutes(13));
  deploy({.name = "s", .cron = "*/5 * * * *"});
  pass(minutes(11));
  EXPECT_TRUE(queue.empty()) << "what time it is was not known yet";
  known = true;
  pass(minutes(3));
  EXPECT_TRUE(queue.empty());
  pass(minutes(1));
  ASSERT_EQ(queue.size(), 1u);
  EXPECT_EQ(queue.begin()->first, "schedule:s:" + std::to_string((all + minutes(15)) / seconds(1)));
  clock.set_wall(minutes(-40));
  pass(minutes(5));
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(row()["missed"], 0);
}

TEST_F(ScheduledInvocationsTest, TheZoneOfTheMachineIsMeant) {
  const auto zones =
      read_time_zones({{.name = "s", .cron = "0 0 * * *", .timezone = "Europe/Zurich"}});
  ASSERT_TRUE(zones.ok()) << zones.error().message;
  EXPECT_EQ(zones->at("Europe/Zurich").period_at(seconds(1'782'864'000)).offset, hours(2));
  const auto none = read_time_zone("Europe/Atlantis");
  EXPECT_EQ(none.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace lambent::worker
