// What the stories in tests/scenarios do not show: bounds, quotas and policies.
#include "decide/dispatch/min_instances.h"

#include <gtest/gtest.h>

#include "decide/scheduling/make_policy.h"

namespace lambent::dispatch {
namespace {

constexpr FunctionId kF{1};

class Instances : public testing::Test {
 public:
  void make(std::string_view policy = "density", unsigned pool = 8) {
    DispatchOptions options;
    options.fleet.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(16)}};
    options.fleet.most_sandboxes = pool;
    options.fleet.starts_outside_tokens = 2;
    options.keep_alive = seconds(10);
    dispatcher_ =
        std::make_unique<Dispatcher>(options, std::move(scheduling::make_policy(policy)).value());
  }
  void give(const Event& event) {
    std::vector<Action> actions;
    dispatcher_->handle(event, now_, actions);
    for (const Action& action : actions) {
      if (const auto* start = std::get_if<StartSandbox>(&action))
        started_.push_back(start->sandbox);
      if (const auto* stop = std::get_if<StopSandbox>(&action)) stopped_.push_back(stop->sandbox);
      if (const auto* wake = std::get_if<WakeAt>(&action)) wake_ = wake->instant;
    }
  }
  void deploy(FunctionProfile profile) {
    profile.id = kF;
    profile.tenant = TenantId{2};
    profile.max_concurrency = 8;
    give(FunctionRegistered{profile});
  }
  // Until then, with a timer whenever one is asked for.
  void pass(Duration time) {
    const Instant end = now_ + time;
    while (wake_ <= end) {
      now_ = std::max(now_, std::exchange(wake_, kNever));
      give(TimerFired{});
    }
    now_ = end;
  }

  std::unique_ptr<Dispatcher> dispatcher_;
  Instant now_{seconds(100)};
  Instant wake_ = kNever;
  std::vector<SandboxId> started_, stopped_;
};

TEST_F(Instances, StartTwoAtATime) {
  make();
  deploy({.min_instances = 5});
  EXPECT_EQ(started_.size(), 2u);
  give(SandboxReady{started_[0]});
  give(SandboxReady{started_[1]});
  EXPECT_EQ(started_.size(), 4u);
  give(SandboxReady{started_[2]});
  give(SandboxReady{started_[3]});
  give(SandboxReady{started_.back()});
  pass(std::chrono::hours(1));
  EXPECT_EQ(started_.size(), 5u);
  EXPECT_EQ(dispatcher_->instances(kF).ready, 5u);
  EXPECT_TRUE(stopped_.empty());
}

TEST_F(Instances, ThatCrashAgainAndAgainAreStartedMoreAndMoreSeldom) {
  make();
  deploy({.min_instances = 1});
  // A whole day in which each crashes at once.
  const Instant end = now_ + std::chrono::hours(24);
  while (now_ < end) {
    const size_t known = started_.size();
    give(SandboxExited{
        started_.back(), {ErrorCode::kInternal, "exit status 1"}, "Runtime.ExitError"});
    while (started_.size() == known && now_ < end) pass(seconds(1));
  }
  // 1 + 2 + ... + 256 seconds, then every five minutes.
  EXPECT_GT(started_.size(), 250u);
  EXPECT_LT(started_.size(), 305u);
  EXPECT_GE(dispatcher_->instances(kF).failures, 250u);
  // A new revision has no failures yet.
  const size_t known = started_.size();
  give(SandboxExited{started_.back(), {}, "Runtime.ExitError"});
  deploy({.revision = 2, .min_instances = 1});
  EXPECT_EQ(started_.size(), known + 1);
}

TEST_F(Instances, WaitAfterAStartThatTakesTooLong) {
  make();
  deploy({.min_instances = 1});
  pass(seconds(11));
  ASSERT_EQ(stopped_.size(), 1u);
  give(SandboxExited{stopped_[0], {}, ""});
  EXPECT_EQ(dispatcher_->instances(kF).failures, 1u);
  EXPECT_EQ(started_.size(), 2u) << "the back-off of a second has passed while it was stopped";
}

TEST_F(Instances, RespectTheQuotasOfTheirTenant) {
  make();
  give(TenantChanged{.tenant = TenantId{2}, .host_memory = Bytes::gib(2)});
  deploy({.host_memory = Bytes::gib(1), .min_instances = 4});
  for (size_t i = 0; i < started_.size(); ++i) give(SandboxReady{started_[i]});
  pass(seconds(30));
  EXPECT_EQ(dispatcher_->instances(kF).ready, 2u);
  EXPECT_EQ(started_.size(), 2u);
}

TEST_F(Instances, AreNoMoreThanThePool) {
  make("density", 3);
  deploy({.device_memory = Bytes::gib(1), .min_instances = 6});
  for (size_t i = 0; i < started_.size(); ++i) give(SandboxReady{started_[i]});
  pass(seconds(30));
  EXPECT_EQ(dispatcher_->instances(kF).ready, 3u);
  EXPECT_TRUE(stopped_.empty());
}

TEST_F(Instances, AreNotKeptByPoliciesThatKeepNone) {
  for (const char* policy : {"fcfs-naive", "exclusive"}) {
    SCOPED_TRACE(policy);
    make(policy);
    deploy({.device_memory = Bytes::gib(1), .min_instances = 1});
    pass(seconds(30));
    EXPECT_TRUE(started_.empty());
  }
}

TEST_F(Instances, GoWhenTheWorkerStopsOrTheFunctionIsRemoved) {
  make();
  deploy({.min_instances = 1});
  give(SandboxReady{started_[0]});
  give(FunctionRemoved{kF});
  EXPECT_EQ(stopped_.size(), 1u);
  give(SandboxExited{stopped_[0], {}, ""});
  pass(seconds(30));
  EXPECT_EQ(started_.size(), 1u);
  deploy({.min_instances = 1});
  give(SandboxReady{started_.back()});
  give(DrainStarted{});
  give(SandboxExited{stopped_.back(), {}, ""});
  pass(seconds(30));
  EXPECT_EQ(started_.size(), 2u);
  EXPECT_TRUE(dispatcher_->drained());
}

}  // namespace
}  // namespace lambent::dispatch
