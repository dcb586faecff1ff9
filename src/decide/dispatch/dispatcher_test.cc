#include "decide/dispatch/dispatcher.h"

#include <gtest/gtest.h>

#include "decide/scheduling/fcfs.h"

namespace lambent::dispatch {
namespace {

constexpr FunctionId kF{1};

DispatchOptions one_gpu() {
  DispatchOptions options;
  options.fleet.devices = {{.id = DeviceId{1}, .memory = Bytes::gib(16)}};
  return options;
}

// A dispatcher with one function on one GPU, and the actions of the last event.
class Bench {
 public:
  explicit Bench(DispatchOptions options = one_gpu(), FunctionProfile profile = {})
      : dispatcher_(options, std::make_unique<scheduling::FcfsPolicy>(scheduling::FcfsOptions{})) {
    profile.id = kF;
    profile.tenant = TenantId{1};
    if (profile.device_memory.count == 0) profile.device_memory = Bytes::gib(1);
    if (profile.timeout.count() == 0) profile.timeout = seconds(3);
    at(Duration(0), FunctionRegistered{profile});
  }

  void at(Duration when, const Event& event) {
    actions_.clear();
    dispatcher_.handle(event, Instant(when), actions_);
  }
  template <typename T>
  std::vector<T> got() const {
    std::vector<T> found;
    for (const Action& action : actions_) {
      if (const T* one = std::get_if<T>(&action)) found.push_back(*one);
    }
    return found;
  }
  Dispatcher& dispatcher() { return dispatcher_; }

 private:
  Dispatcher dispatcher_;
  std::vector<Action> actions_;
};

InvocationId id(uint64_t n) { return {0, n}; }

TEST(Dispatcher, APlannedSandboxGoesElsewhereWhenItsRoomIsTaken) {
  DispatchOptions options = one_gpu();
  options.fleet.devices.push_back({.id = DeviceId{2}, .memory = Bytes::gib(16)});
  Bench bench(options, {.device_memory = Bytes::gib(10)});
  const FunctionId other{2};
  bench.at(seconds(0), FunctionRegistered{{.id = other,
                                           .tenant = TenantId{1},
                                           .device_memory = Bytes::gib(10),
                                           .timeout = seconds(100)}});
  bench.at(seconds(1), InvocationSubmitted{id(1), kF});
  bench.at(seconds(2), SandboxReady{SandboxId{1}});
  bench.at(seconds(3), InvocationFinished{id(1), seconds(1), true});
  bench.at(seconds(4), DeviceReading{.device = DeviceId{2}, .healthy = false});
  // Asynchronous: its wait has no end of its own.
  bench.at(seconds(5), InvocationSubmitted{id(2), other, true});
  ASSERT_EQ(bench.got<StopSandbox>().size(), 1u);
  ASSERT_EQ(bench.got<StartSandbox>().size(), 0u);
  bench.at(seconds(6), DeviceReading{.device = DeviceId{2}, .healthy = true});
  ASSERT_EQ(bench.got<StartSandbox>().size(), 0u);

  bench.at(seconds(7), DeviceTaken{DeviceId{1}, Bytes::gib(8)});
  const auto starts = bench.got<StartSandbox>();
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].function, other);
  EXPECT_EQ(starts[0].device, DeviceId{2});
}

TEST(Dispatcher, AFirstInvocationIsColdAndASecondWarm) {
  Bench bench;
  bench.at(seconds(1), InvocationSubmitted{id(1), kF});
  const auto starts = bench.got<StartSandbox>();
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].device, DeviceId{1});

  bench.at(seconds(3), SandboxReady{starts[0].sandbox, seconds(1), milliseconds(1500)});
  ASSERT_EQ(bench.got<StartInvocation>().size(), 1u);
  EXPECT_EQ(bench.got<StartInvocation>()[0].start, StartClass::kCold);

  bench.at(seconds(4), InvocationFinished{id(1), seconds(1), true});
  auto done = bench.got<CompleteInvocation>();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].outcome, Outcome::kSucceeded);
  EXPECT_EQ(done[0].phases.queue, Duration(0));
  EXPECT_EQ(done[0].phases.sandbox, milliseconds(500));
  EXPECT_EQ(done[0].phases.init, milliseconds(1500));
  EXPECT_EQ(done[0].phases.run, seconds(1));

  bench.at(seconds(5), InvocationSubmitted{id(2), kF});
  ASSERT_EQ(bench.got<StartInvocation>().size(), 1u);
  EXPECT_EQ(bench.got<StartInvocation>()[0].start, StartClass::kWarm);
}

TEST(Dispatcher, AFunctionThatRunsTooLongIsStoppedAndTold) {
  Bench bench;
  bench.at(seconds(1), InvocationSubmitted{id(1), kF});
  const auto sandbox = bench.got<StartSandbox>()[0].sandbox;
  bench.at(seconds(2), SandboxReady{sandbox});
  ASSERT_EQ(bench.got<WakeAt>().size(), 1u);
  EXPECT_EQ(bench.got<WakeAt>()[0].instant, Instant(seconds(5)));
  bench.at(seconds(5), TimerFired{});
  ASSERT_EQ(bench.got<StopSandbox>().size(), 1u);
  EXPECT_EQ(bench.got<StopSandbox>()[0].reason, StopReason::kTimedOut);
  const auto done = bench.got<CompleteInvocation>();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].error_type, "Sandbox.Timeout");
  EXPECT_EQ(done[0].error->message, "Task timed out after 3.00 seconds");
  bench.at(seconds(6), InvocationFinished{id(1), seconds(4), true});
  EXPECT_TRUE(bench.got<CompleteInvocation>().empty());
  EXPECT_EQ(bench.dispatcher().fleet().devices()[0].tokens_held, 1u);
  bench.at(seconds(6), SandboxExited{sandbox, {}, ""});
  EXPECT_EQ(bench.dispatcher().fleet().devices()[0].tokens_held, 0u);
}

TEST(Dispatcher, WhatEndsThroughNoFaultOfItsOwnIsRestartedOftenButNotForEver) {
  DispatchOptions options = one_gpu();
  options.start_retries = 1;
  options.restarts = 4;
  Bench bench(options);
  bench.at(seconds(1), InvocationSubmitted{id(1), kF});
  Duration now = seconds(2);
  for (unsigned restarts = 0;; ++restarts) {
    const auto starts = bench.got<StartSandbox>();
    ASSERT_EQ(starts.size(), 1u) << restarts;
    bench.at(now += seconds(1), SandboxReady{starts[0].sandbox});
    ASSERT_EQ(bench.got<StartInvocation>().size(), 1u);
    bench.at(now, SandboxExited{starts[0].sandbox, {}, "Kernel.Fault", true});
    if (restarts == 4) break;
    EXPECT_TRUE(bench.got<CompleteInvocation>().empty()) << restarts;
  }
  ASSERT_EQ(bench.got<CompleteInvocation>().size(), 1u);
  EXPECT_EQ(bench.got<CompleteInvocation>()[0].error_type, "Kernel.Fault");
}

TEST(Dispatcher, AStartThatOthersBrokeIsTriedMoreOftenThanOneThatFailed) {
  DispatchOptions options = one_gpu();
  options.start_retries = 1;
  options.restarts = 4;
  Bench bench(options);
  const Error error = {ErrorCode::kInternal, "an illegal address"};
  bench.at(seconds(1), InvocationSubmitted{id(1), kF});
  for (unsigned broken = 0; broken < 4; ++broken) {
    const SandboxId sandbox = bench.got<StartSandbox>().at(0).sandbox;
    bench.at(seconds(2 + broken), SandboxExited{sandbox, error, "Sandbox.Failure", true});
  }
  const SandboxId failed = bench.got<StartSandbox>().at(0).sandbox;
  bench.at(seconds(7), SandboxExited{failed, error, "Sandbox.Failure"});
  const SandboxId last = bench.got<StartSandbox>().at(0).sandbox;
  bench.at(seconds(8), SandboxExited{last, error, "Sandbox.Failure", true});
  EXPECT_TRUE(bench.got<StartSandbox>().empty());
  ASSERT_EQ(bench.got<CompleteInvocation>().size(), 1u);
  EXPECT_EQ(bench.got<CompleteInvocation>()[0].outcome, Outcome::kRejected);
}

TEST(Dispatcher, WhatWasAcknowledgedBeforeIsRefusedByNoBound) {
  DispatchOptions options = one_gpu();
  options.queued_per_function = 2;
  options.queued_invocations = 2;
  Bench bench(options);
  for (uint64_t n = 1; n <= 8; ++n) {
    bench.at(seconds(1), InvocationSubmitted{id(n), kF, true, true});
    EXPECT_TRUE(bench.got<CompleteInvocation>().empty()) << n;
  }
  EXPECT_EQ(bench.dispatcher().queued(), 7u);
  EXPECT_EQ(bench.dispatcher().queued_synchronous(), 0u);
  bench.at(seconds(1), InvocationSubmitted{id(9), kF, true});
  ASSERT_EQ(bench.got<CompleteInvocation>().size(), 1u);
  EXPECT_EQ(bench.got<CompleteInvocation>()[0].error->code, ErrorCode::kResourceExhausted);
}

TEST(Dispatcher, AStartThatFindsNoRoomIsRefusedAndNotTriedAgain) {
  DispatchOptions options = one_gpu();
  options.start_retries = 1;
  Bench bench(options);
  bench.at(seconds(1), InvocationSubmitted{id(1), kF});
  const SandboxId sandbox = bench.got<StartSandbox>().at(0).sandbox;
  bench.at(seconds(4),
           SandboxExited{sandbox, {ErrorCode::kResourceExhausted, "no room"}, "Sandbox.NoRoom"});
  EXPECT_TRUE(bench.got<StartSandbox>().empty());
  const auto ended = bench.got<CompleteInvocation>();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].outcome, Outcome::kRejected);
  EXPECT_EQ(ended[0].error->code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(ended[0].error_type, "Sandbox.NoRoom");
}

TEST(Dispatcher, AStartThatFailsIsNoWaitInTheQueue) {
  Bench bench;
  bench.at(seconds(1), InvocationSubmitted{id(1), kF});
  const SandboxId sandbox = bench.got<StartSandbox>().at(0).sandbox;
  bench.at(seconds(4), SandboxExited{sandbox, {ErrorCode::kInternal, "no"}, "Runtime.ExitError"});
  const auto ended = bench.got<CompleteInvocation>();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].start, StartClass::kCold);
  EXPECT_EQ(ended[0].phases.queue, Duration(0));
  EXPECT_EQ(ended[0].phases.sandbox, seconds(3));
  EXPECT_EQ(ended[0].phases.init, Duration(0));
}

TEST(Dispatcher, WhatWaitedForATokenWhenItsDeviceWasLostIsToldSo) {
  DispatchOptions options = one_gpu();
  options.fleet.devices[0].tokens = 1;
  options.fleet.starts_outside_tokens = 2;
  options.fleet.second_grace_period = 0;
  options.start_retries = 0;
  FunctionProfile wide;
  wide.max_concurrency = 2;
  Bench bench(options, wide);
  bench.at(seconds(1), InvocationSubmitted{id(1), kF});
  const SandboxId first = bench.got<StartSandbox>().at(0).sandbox;
  bench.at(seconds(1), InvocationSubmitted{id(2), kF});
  const SandboxId second = bench.got<StartSandbox>().at(0).sandbox;
  bench.at(seconds(2), SandboxReady{first});
  bench.at(seconds(3), SandboxReady{second, milliseconds(1500), milliseconds(500)});
  ASSERT_TRUE(bench.got<StartInvocation>().empty());

  bench.at(seconds(4), DeviceReading{.device = DeviceId{1}, .healthy = false, .lost = true});
  const auto ended = bench.got<CompleteInvocation>();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].invocation, id(2));
  EXPECT_EQ(ended[0].outcome, Outcome::kRejected);
  EXPECT_EQ(ended[0].phases.sandbox, milliseconds(1500));
  EXPECT_EQ(ended[0].phases.init, milliseconds(500));
  EXPECT_EQ(ended[0].phases.queue, seconds(1));
  ASSERT_EQ(bench.got<StopSandbox>().size(), 1u);
  EXPECT_EQ(bench.got<StopSandbox>()[0].sandbox, second);
}

TEST(Dispatcher, WhatIsPartOfWhatWasAcknowledgedWaitsAsLongAsItMust) {
  DispatchOptions options = one_gpu();
  options.longest_wait = seconds(10);
  FunctionProfile slow;
  slow.timeout = seconds(60);
  Bench bench(options, slow);
  bench.at(seconds(1), InvocationSubmitted{id(1), kF});
  const SandboxId sandbox = bench.got<StartSandbox>().at(0).sandbox;
  bench.at(seconds(1), SandboxReady{sandbox, Duration(0), Duration(0)});
  bench.at(seconds(2), InvocationSubmitted{id(2), kF});
  bench.at(seconds(2),
           InvocationSubmitted{.invocation = id(3), .function = kF, .acknowledged = true});
  EXPECT_EQ(bench.dispatcher().queued_synchronous(), 1u) << "only the other holds a connection";
  bench.at(seconds(12), TimerFired{});
  const auto ended = bench.got<CompleteInvocation>();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].invocation, id(2));
  bench.at(seconds(50), InvocationFinished{id(1), seconds(49), true});
  ASSERT_EQ(bench.got<StartInvocation>().size(), 1u);
  EXPECT_EQ(bench.got<StartInvocation>()[0].invocation, id(3));
}

TEST(Dispatcher, NobodyHoldsAConnectionForACallOfAWorkflow) {
  DispatchOptions options = one_gpu();
  options.queued_synchronous = 4;
  options.longest_wait = seconds(10);
  Bench bench(options);
  bench.at(seconds(1), InvocationSubmitted{id(1), kF});
  for (uint64_t n = 2; n <= 20; ++n) {
    bench.at(seconds(1),
             InvocationSubmitted{.invocation = id(n), .function = kF, .within_run = true});
    EXPECT_TRUE(bench.got<CompleteInvocation>().empty()) << n;
  }
  EXPECT_EQ(bench.dispatcher().queued(), 19u);
  EXPECT_EQ(bench.dispatcher().queued_synchronous(), 0u);
  // Clients have all the places that they had before, and no more.
  for (uint64_t n = 21; n <= 22; ++n) {
    bench.at(seconds(1), InvocationSubmitted{id(n), kF});
    EXPECT_TRUE(bench.got<CompleteInvocation>().empty()) << n;
  }
  EXPECT_EQ(bench.dispatcher().queued_synchronous(), 2u);
  bench.at(seconds(1), InvocationSubmitted{id(23), kF});
  ASSERT_EQ(bench.got<CompleteInvocation>().size(), 1u);
  EXPECT_EQ(bench.got<CompleteInvocation>()[0].invocation, id(23));
  // A client waits for the workflow, so its calls do not wait for ever.
  bench.at(seconds(11), TimerFired{});
  EXPECT_EQ(bench.dispatcher().queued(), 0u);
  EXPECT_EQ(bench.dispatcher().queued_synchronous(), 0u);
}

TEST(Dispatcher, ABurstAfterAPauseIsJudgedByWhatRunsTake) {
  DispatchOptions options = one_gpu();
  options.queue_wait = seconds(10);
  Bench bench(options);
  // Others have most of the device: what runs for 200 ms comes up every three seconds.
  for (uint64_t n = 1; n <= 25; ++n) bench.at(seconds(0), InvocationSubmitted{id(n), kF});
  bench.at(seconds(1), SandboxReady{SandboxId{1}, seconds(1), Duration(0)});
  for (uint64_t n = 1; n <= 25; ++n) {
    bench.at(seconds(3 * n), InvocationFinished{id(n), milliseconds(200), true});
  }
  EXPECT_EQ(bench.dispatcher().flows()[kF.value].turns.mean(), seconds(3));
  EXPECT_EQ(bench.dispatcher().queued(), 0u);
  const Duration later = seconds(3 * 25 + 60);
  for (uint64_t n = 101; n <= 141; ++n) {
    bench.at(later, InvocationSubmitted{id(n), kF});
    EXPECT_TRUE(bench.got<CompleteInvocation>().empty()) << n;
  }
}

}  // namespace
}  // namespace lambent::dispatch
