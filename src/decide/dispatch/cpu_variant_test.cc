// CPU variants in the dispatcher: what is learnt where, what a failure on the host does, and what a
// journal's replay can know.
#include <gtest/gtest.h>

#include "decide/dispatch/dispatcher.h"
#include "decide/scheduling/make_policy.h"

namespace lambent::dispatch {
namespace {

constexpr FunctionId kF{1};

class CpuVariant : public testing::Test {
 protected:
  CpuVariant()
      : dispatcher_(options(), std::move(scheduling::make_policy("density", {})).value()) {}

  static DispatchOptions options() {
    DispatchOptions options;
    options.fleet.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(16), .tokens = 1}};
    return options;
  }
  // A run takes 100 s on a GPU and 10 s on the host, by what was learnt before.
  static FunctionProfile profile() {
    return {.id = kF,
            .tenant = TenantId{1},
            .revision = 1,
            .device_memory = Bytes::gib(1),
            .timeout = seconds(900),
            .has_cpu_variant = true,
            .mean_execution = seconds(100),
            .mean_interarrival = seconds(10),
            .mean_cold_start = seconds(1),
            .completed = 64,
            .mean_host_execution = seconds(10),
            .mean_host_cold_start = seconds(1),
            .completed_on_host = 64};
  }
  void at(Duration when, const Event& event) {
    actions_.clear();
    dispatcher_.handle(event, Instant(when), actions_);
  }
  // Submits one; the sandbox that is started for it is ready at once.
  SandboxId run(Duration when, uint64_t number) {
    at(when, InvocationSubmitted{{0, number}, kF, true});
    SandboxId started{};
    for (const Action& action : actions_) {
      if (const auto* one = std::get_if<StartSandbox>(&action)) started = one->sandbox;
    }
    if (started != SandboxId{}) at(when, SandboxReady{started});
    return started;
  }
  const scheduling::Flow& flow() const { return dispatcher_.flows()[kF.value]; }

  Dispatcher dispatcher_;
  std::vector<Action> actions_;
};

TEST_F(CpuVariant, LearnsNothingFromAnErrorOnTheHostAndPauses) {
  at({}, FunctionRegistered{profile()});
  run(seconds(1), 1);
  run(seconds(1), 2);
  ASSERT_EQ(flow().on_host, 1u);
  at(seconds(2), InvocationFinished{{0, 2}, milliseconds(5), false});
  EXPECT_EQ(flow().host_execution.mean(), seconds(10));
  EXPECT_EQ(flow().host_failures, 1u);
  run(seconds(3), 3);
  EXPECT_EQ(flow().on_host, 0u);
  at(seconds(12), TimerFired{});
  ASSERT_EQ(flow().on_host, 1u) << "the end of the pause is an event";
  at(seconds(20), InvocationFinished{{0, 3}, seconds(8), true});
  EXPECT_LT(flow().host_execution.mean(), seconds(10));
  EXPECT_EQ(flow().host_failures, 0u);
}

TEST_F(CpuVariant, LearnsNothingFromACrashOnTheHost) {
  at({}, FunctionRegistered{profile()});
  run(seconds(1), 1);
  const SandboxId sandbox = run(seconds(1), 2);
  ASSERT_EQ(flow().on_host, 1u);
  at(seconds(1), SandboxExited{sandbox, {ErrorCode::kUnknown, "exit"}, "Runtime.ExitError"});
  EXPECT_EQ(flow().host_execution.samples(), 64u);
  EXPECT_EQ(flow().host_failures, 1u);
}

TEST_F(CpuVariant, CountsWhatFailsTogetherAsOneFailureThatNoEarlierRunLifts) {
  at({}, FunctionRegistered{profile()});
  run(seconds(1), 1);
  std::vector<SandboxId> on_host;
  for (uint64_t number = 2; number < 10; ++number) on_host.push_back(run(seconds(1), number));
  ASSERT_EQ(flow().on_host, 8u);
  for (size_t i = 0; i + 1 < on_host.size(); ++i) {
    at(seconds(2), SandboxExited{on_host[i], {ErrorCode::kUnknown, "oom"}, "Runtime.ExitError"});
  }
  at(seconds(2), InvocationFinished{{0, 9}, seconds(1), true});
  EXPECT_EQ(flow().host_failures, 1u);
}

TEST_F(CpuVariant, MovesWhatWasLearntWhenAFunctionGainsOrLosesItsGpu) {
  FunctionProfile plain = profile();
  plain.device_memory = Bytes(0);
  plain.has_cpu_variant = false;
  plain.mean_execution = seconds(20);
  at({}, FunctionRegistered{plain});
  FunctionProfile with_gpu = profile();
  with_gpu.revision = 2;
  with_gpu.gpu_speedup = 20;
  at(seconds(1), FunctionRegistered{with_gpu});
  EXPECT_EQ(scheduling::expected_gpu_time(flow()), seconds(1));
  EXPECT_EQ(scheduling::expected_host_time(flow()), seconds(20));
  EXPECT_FALSE(flow().cold_start.known());
  plain.revision = 3;
  at(seconds(2), FunctionRegistered{plain});
  EXPECT_EQ(flow().execution.mean(), seconds(20));
  EXPECT_FALSE(flow().host_execution.known());
}

TEST_F(CpuVariant, LearnsARunOfBeforeWhereItRan) {
  FunctionProfile plain = profile();
  plain.device_memory = Bytes(0);
  plain.has_cpu_variant = false;
  plain.completed = 0;
  at({}, FunctionRegistered{plain});
  run(seconds(1), 1);
  FunctionProfile with_gpu = profile();
  with_gpu.revision = 2;
  at(seconds(2), FunctionRegistered{with_gpu});
  at(seconds(5), InvocationFinished{{0, 1}, seconds(4), true});
  EXPECT_FALSE(flow().execution.known());
  EXPECT_EQ(flow().host_execution.mean(), seconds(4));
}

// A journal writes the host's times only of those that have a variant.
TEST_F(CpuVariant, TakesTimesOfTheHostFromThoseAloneThatHaveAVariant) {
  FunctionProfile told = profile();
  told.has_cpu_variant = false;
  told.gpu_speedup = 3;
  at({}, FunctionRegistered{told});
  EXPECT_FALSE(flow().host_execution.known());
  EXPECT_FALSE(flow().host_cold_start.known());
  EXPECT_EQ(flow().gpu_speedup, 0);
}

TEST_F(CpuVariant, KeepsItsFlowActiveForAWhileWhenItsLastOneGoesToTheHost) {
  at({}, FunctionRegistered{profile()});
  FunctionProfile other = profile();
  other.id = FunctionId{2};
  other.has_cpu_variant = false;
  at({}, FunctionRegistered{other});
  at(seconds(1), InvocationSubmitted{{0, 1}, other.id, true});
  run(seconds(3), 2);
  ASSERT_EQ(flow().on_host, 1u);
  EXPECT_TRUE(flow().is_active(Instant(seconds(3))));
}

TEST_F(CpuVariant, IsRestoredWithWhatRunsAndWhatIsAway) {
  at({}, FunctionRegistered{profile()});
  run(seconds(1), 1);
  run(seconds(2), 2);
  at(seconds(3), DeviceReading{DeviceId{1}, 0, {}, false, false});
  Dispatcher twin(options(), std::move(scheduling::make_policy("density", {})).value());
  ASSERT_TRUE(twin.restore(dispatcher_.snapshot()));
  EXPECT_EQ(twin.snapshot(), dispatcher_.snapshot());
  std::vector<Action> actions;
  const Event event = InvocationSubmitted{{0, 3}, kF, true};
  twin.handle(event, Instant(seconds(4)), actions);
  at(seconds(4), event);
  EXPECT_EQ(twin.log_hash(), dispatcher_.log_hash());
  EXPECT_EQ(twin.snapshot(), dispatcher_.snapshot());
}

}  // namespace
}  // namespace lambent::dispatch
