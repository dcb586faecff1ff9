#include "decide/scheduling/hybrid.h"

#include <gtest/gtest.h>

#include <optional>

namespace lambent::scheduling {
namespace {

// A GPU with two tokens that are both taken, and functions 1 to 4 that wait, each with a run of a
// second there and one of five on the host.
class Hybrid : public testing::Test {
 protected:
  Hybrid() : host_(host_options()) {
    gpus_.emplace(gpu_options());
    flows_.resize(5);
    for (uint32_t id = 1; id <= 4; ++id) {
      Flow& flow = flows_[id];
      flow.registered = true;
      flow.device_memory = Bytes::gib(1);
      flow.has_cpu_variant = true;
      flow.execution = RunningMean(seconds(1), 10);
      flow.host_execution = RunningMean(seconds(5), 10);
      flow.cold_start = RunningMean(seconds(2), 1);
      flow.host_cold_start = RunningMean(seconds(1), 1);
    }
  }

  static FleetOptions gpu_options() {
    FleetOptions options;
    options.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(16), .tokens = 2}};
    return options;
  }
  static FleetOptions host_options() {
    FleetOptions options;
    options.devices = {{.id = kHostDevice, .tokens = 4, .contexts = 8}};
    options.most_sandboxes = 8;
    return options;
  }

  void wait(uint32_t id, uint32_t pending) {
    Flow& flow = flows_[id];
    flow.pending = pending;
    flow.oldest = ++arrivals_;
    waiting_.put(FunctionId{id}, true);
    variants_.put(FunctionId{id}, flow.has_cpu_variant);
  }
  // A sandbox of the function at rest there, and one at work.
  void rest_on_host(uint32_t id) { host_.rest(run_on_host(id), now_); }
  SandboxSlot run_on_host(uint32_t id) {
    const SandboxSlot slot =
        host_.plan(SandboxId{++sandboxes_}, FunctionId{id}, flows_[id], Place{0}, now_);
    host_.start(slot, now_);
    host_.run(slot, now_);
    return slot;
  }

  HostAdvice ask() {
    const View gpu{flows_, *gpus_, tenants_};
    return choose_for_host(options_,
                           {.gpu = gpu,
                            .host = host_,
                            .waiting = waiting_,
                            .waiting_variants = variants_,
                            .runs = runs_,
                            .reserved = reserved_,
                            .away_since = away_since_},
                           now_);
  }
  std::optional<HostChoice> choose() { return ask().choice; }

  HybridOptions options_;
  Flows flows_;
  Tenants tenants_;
  std::optional<Fleet> gpus_;
  Fleet host_;
  FlowSet waiting_, variants_;
  std::vector<GpuRun> runs_;
  unsigned reserved_ = 0;
  std::vector<Instant> away_since_{Instant{}};
  Instant now_{seconds(10)};
  uint64_t arrivals_ = 0, sandboxes_ = 0;
};

TEST_F(Hybrid, KeepsAShortQueueOnTheGpuAndTakesFromALongOne) {
  wait(1, 1);
  EXPECT_FALSE(choose()) << "three seconds on the GPU, six on the host";
  wait(1, 20);
  const auto choice = choose();
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->function, FunctionId{1});
  EXPECT_EQ(choice->reason, HostReason::kQueue);
  EXPECT_EQ(choice->with_host, seconds(6));
  EXPECT_GT(choice->with_gpu, seconds(6));
}

TEST_F(Hybrid, CountsWhatRunsOnTheGpusAsWaiting) {
  options_.others = 0;
  wait(1, 1);
  runs_ = {{FunctionId{3}, now_ + seconds(4)}};
  EXPECT_FALSE(choose());
  runs_.push_back({FunctionId{4}, now_ + seconds(6)});
  EXPECT_TRUE(choose());
  runs_[0].end = now_ - seconds(1000);
  EXPECT_FALSE(choose()) << "what is overdue makes nothing else shorter";
}

TEST_F(Hybrid, SendsWhoLosesLeastByLeaving) {
  for (uint32_t id = 1; id <= 4; ++id) wait(id, 5);
  flows_[3].host_execution = RunningMean(milliseconds(2500), 10);
  flows_[2].host_execution = RunningMean(seconds(90), 10);
  ASSERT_TRUE(choose());
  EXPECT_EQ(choose()->function, FunctionId{3});
}

TEST_F(Hybrid, PrefersWhoIsWarmThere) {
  wait(1, 10);
  wait(2, 10);
  rest_on_host(2);
  ASSERT_TRUE(choose());
  EXPECT_EQ(choose()->function, FunctionId{2});
  EXPECT_NE(choose()->place.warm, kNoSandbox);
}

TEST_F(Hybrid, NeedsATokenOfTheHostBeyondThoseThatAreReserved) {
  wait(1, 20);
  run_on_host(1);
  run_on_host(2);
  EXPECT_TRUE(choose());
  reserved_ = 2;
  EXPECT_FALSE(choose());
  reserved_ = 0;
  run_on_host(3);
  run_on_host(3);
  EXPECT_FALSE(choose());
}

TEST_F(Hybrid, NeverSendsWhatWouldRunIntoItsTimeout) {
  wait(1, 20);
  flows_[1].timeout = seconds(6);
  EXPECT_FALSE(choose());
  flows_[1].timeout = seconds(7);
  EXPECT_TRUE(choose());
}

TEST_F(Hybrid, TriesAFunctionOfUnknownTimeOnceAtATimeWhereTheHostHasRoom) {
  flows_[1].host_execution = {};
  wait(1, 20);
  ASSERT_TRUE(choose());
  EXPECT_EQ(choose()->reason, HostReason::kTrial);
  flows_[1].on_host = 1;
  EXPECT_FALSE(choose());
  flows_[1].on_host = 0;
  run_on_host(2);
  run_on_host(2);
  EXPECT_FALSE(choose()) << "half of the host is at work";
}

TEST_F(Hybrid, TakesADeclaredSpeedupForATimeThatWasNotLearnt) {
  flows_[1].host_execution = {};
  flows_[1].gpu_speedup = 5;
  wait(1, 20);
  ASSERT_TRUE(choose());
  EXPECT_EQ(choose()->reason, HostReason::kQueue);
  EXPECT_EQ(choose()->with_host, seconds(6));
  flows_[1].gpu_speedup = 500;
  EXPECT_FALSE(choose());
}

TEST_F(Hybrid, WaitsForAGpuToTellWhatADeclaredSpeedupIsOf) {
  flows_[1].execution = {};
  flows_[1].host_execution = {};
  flows_[1].gpu_speedup = 5;
  wait(1, 20);
  EXPECT_FALSE(choose());
  away_since_[0] = now_ - seconds(100);
  gpus_->set_reading(0, 0, false);
  EXPECT_TRUE(choose()) << "no GPU will tell";
  gpus_->set_reading(0, 0, true);
  flows_[1].gpu_speedup = 0;
  ASSERT_TRUE(choose());
  EXPECT_EQ(choose()->reason, HostReason::kTrial);
}

TEST_F(Hybrid, TakesWhatIsOverdueToLastAsLongAgain) {
  options_.others = 0;
  gpus_.emplace(gpu_options());
  for (const uint32_t id : {3u, 4u}) {
    const SandboxSlot slot =
        gpus_->plan(SandboxId{++sandboxes_}, FunctionId{id}, flows_[id], Place{0}, now_);
    gpus_->start(slot, now_);
    gpus_->run(slot, now_);
    runs_.push_back({FunctionId{id}, now_});
  }
  wait(1, 1);  // three seconds on the GPU, six on the host
  EXPECT_FALSE(choose());
  EXPECT_EQ(ask().ask_again, now_ + seconds(3) + milliseconds(1));
  now_ += seconds(3) + milliseconds(1);
  EXPECT_TRUE(choose());
  runs_[0].end = now_ + seconds(1);
  EXPECT_FALSE(choose()) << "a token is expected soon";
}

TEST_F(Hybrid, TriesAgainWhatOnceTookTooLongForItsTimeout) {
  flows_[1].timeout = seconds(10);
  flows_[1].host_execution = RunningMean(seconds(10), 1);
  flows_[1].last_host_run = now_;
  wait(1, 30);
  EXPECT_FALSE(choose());
  now_ += seconds(1001);
  EXPECT_TRUE(choose());
  flows_[1].on_host = 1;
  EXPECT_FALSE(choose()) << "one of them will tell";
}

TEST_F(Hybrid, PausesWhereTheHostServesAloneToo) {
  flows_[1].max_concurrency = 0;
  wait(1, 1);
  EXPECT_TRUE(choose());
  flows_[1].host_failures = 1;
  flows_[1].host_failed = now_ - seconds(4);
  EXPECT_FALSE(choose());
  EXPECT_EQ(ask().ask_again, now_ + seconds(6));
}

TEST_F(Hybrid, DoubtsATimeThatNobodyHasCheckedForLong) {
  options_.others = 0;
  flows_[1].host_execution = RunningMean(seconds(8), 10);
  flows_[1].last_host_run = now_;
  wait(1, 8);
  EXPECT_FALSE(choose());
  now_ += seconds(801);
  EXPECT_TRUE(choose());
}

TEST_F(Hybrid, KeepsAFunctionThatFailsOnTheHostAwayForLongerEachTime) {
  wait(1, 20);
  flows_[1].host_failed = now_;
  flows_[1].host_failures = 1;
  EXPECT_FALSE(choose());
  EXPECT_EQ(ask().ask_again, now_ + seconds(10));
  now_ += seconds(10);
  EXPECT_TRUE(choose());
  flows_[1].host_failures = 3;
  EXPECT_FALSE(choose());
  now_ += seconds(30);
  EXPECT_TRUE(choose());
}

TEST_F(Hybrid, ServesWhoHasNoGpuLeftAtOnceIfItIsLostAndElseAfterAWhile) {
  options_.rule = HybridRule::kTopShare;
  wait(1, 1);
  EXPECT_FALSE(choose());
  away_since_[0] = now_;
  gpus_->set_reading(0, 0, false, false);
  EXPECT_FALSE(choose());
  EXPECT_EQ(ask().ask_again, now_ + seconds(6));
  gpus_->set_reading(0, 0, false, true);
  ASSERT_TRUE(choose());
  EXPECT_EQ(choose()->reason, HostReason::kNoDevice);
  gpus_->set_reading(0, 0, false, false);
  now_ += seconds(6);
  EXPECT_TRUE(choose()) << "it has been away for as long as the host takes";
}

TEST_F(Hybrid, CountsHowLongThoseAreAwayThatAreLargeEnough) {
  FleetOptions options = gpu_options();
  options.devices.push_back({.id = DeviceId{2}, .memory = Bytes::gib(2), .tokens = 1});
  gpus_.emplace(options);
  flows_[1].device_memory = Bytes::gib(10);
  gpus_->set_reading(0, 0, false);
  gpus_->set_reading(1, 0, false);
  away_since_ = {now_ - seconds(6), now_};
  wait(1, 1);
  EXPECT_TRUE(choose());
  away_since_[0] = now_ - seconds(5);
  EXPECT_FALSE(choose());
}

TEST_F(Hybrid, ServesThoseOutsideTheTopShareInTheOrderOfTheirArrival) {
  options_.rule = HybridRule::kTopShare;
  wait(2, 1);
  wait(1, 1);
  flows_[1].max_concurrency = 0;
  flows_[2].max_concurrency = 0;
  ASSERT_TRUE(choose());
  EXPECT_EQ(choose()->function, FunctionId{2});
  EXPECT_EQ(choose()->reason, HostReason::kSmallSpeedup);
}

TEST_F(Hybrid, DoesNothingWhereItIsOff) {
  options_.rule = HybridRule::kOff;
  wait(1, 100);
  EXPECT_FALSE(choose());
}

TEST(TopShare, RanksTheFunctionsWhoseSpeedupIsKnown) {
  Flows flows(7);
  for (uint32_t id = 1; id <= 6; ++id) {
    flows[id].registered = true;
    flows[id].device_memory = Bytes::gib(1);
    flows[id].has_cpu_variant = id != 6;
  }
  flows[1].gpu_speedup = 2;
  flows[2].gpu_speedup = 30;
  flows[3].execution = RunningMean(seconds(1), 1);  // declared slow, learnt to be fast
  flows[3].host_execution = RunningMean(seconds(50), 1);
  flows[3].gpu_speedup = 1.5;
  flows[4].gpu_speedup = 2;
  const std::vector<bool> half{false, true, false, false, true, false, false};
  EXPECT_EQ(outside_top_share(flows, 0.5, {}), half) << "5 is unknown, 6 has no variant";
  const std::vector<bool> three{false, false, false, false, true, false, false};
  EXPECT_EQ(outside_top_share(flows, 0.75, {}), three) << "of equals the first";
  const std::vector<bool> none{false, true, true, true, true, false, false};
  EXPECT_EQ(outside_top_share(flows, 0, {}), none);
  EXPECT_EQ(outside_top_share(flows, 1, {}), std::vector<bool>(7, false));
}

TEST(FlowSet, IsWalkedInTheOrderOfIds) {
  FlowSet set;
  for (const uint32_t id : {700u, 3u, 64u, 63u, 3u}) set.put(FunctionId{id}, true);
  set.put(FunctionId{64}, false);
  set.put(FunctionId{9000}, false);
  EXPECT_EQ(set.size(), 3u);
  EXPECT_TRUE(set.contains(FunctionId{63}));
  EXPECT_FALSE(set.contains(FunctionId{64}));
  std::vector<uint32_t> walked;
  set.for_each([&](FunctionId id) { walked.push_back(id.value); });
  EXPECT_EQ(walked, (std::vector<uint32_t>{3, 63, 700}));
  set.clear();
  EXPECT_TRUE(set.empty());
}

}  // namespace
}  // namespace lambent::scheduling
