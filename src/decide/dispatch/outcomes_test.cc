#include "decide/dispatch/outcomes.h"

#include <gtest/gtest.h>

#include "decide/dispatch/testing/parts.h"

namespace lambent::dispatch {
namespace {

using scheduling::SandboxState;

constexpr FunctionId kF{1};

class OutcomesTest : public testing::Test {
 protected:
  OutcomesTest() { parts_.add_function(kF, Bytes::gib(1), seconds(5)); }
  // Submits one, whose sandbox starts.
  SandboxId start(uint64_t number) {
    const InvocationSlot slot = parts_.submit(number, kF);
    EXPECT_TRUE(parts_.dispatch(kF));
    return parts_.pools.gpu.fleet().sandbox(parts_.queues[slot].sandbox).id;
  }
  SandboxId run(uint64_t number) {
    const SandboxId sandbox = start(number);
    parts_.placements.sandbox_ready({sandbox});
    return sandbox;
  }
  CompleteInvocation outcome() const {
    const auto outcomes = parts_.got<CompleteInvocation>();
    EXPECT_EQ(outcomes.size(), 1u);
    return outcomes.empty() ? CompleteInvocation{} : outcomes.back();
  }
  SandboxState state(SandboxId sandbox) const { return parts_.gpu_sandbox(sandbox).state; }
  bool waits(uint64_t number) const {
    const auto slot = parts_.queues.find({0, number});
    return slot && parts_.queues[*slot].state == InvocationState::kQueued;
  }

  Parts parts_;
};

TEST_F(OutcomesTest, CompleteARunAndLetItsSandboxRest) {
  const SandboxId sandbox = run(1);
  parts_.at(3);
  parts_.outcomes.finished({{0, 1}, seconds(2), true});
  EXPECT_EQ(outcome().outcome, Outcome::kSucceeded);
  EXPECT_EQ(outcome().phases.run, seconds(3));
  EXPECT_EQ(state(sandbox), SandboxState::kIdle);
  EXPECT_EQ(parts_.flow(kF).execution.mean(), seconds(2));
  EXPECT_EQ(parts_.flow(kF).in_flight, 0u);
}

TEST_F(OutcomesTest, StopASandboxAfterItsRunThatMustGo) {
  const SandboxId drained = run(1);
  parts_.admission.start_drain();
  parts_.outcomes.finished({{0, 1}, seconds(1), true});
  EXPECT_EQ(parts_.got<StopSandbox>()[0].reason, StopReason::kDrained);
  EXPECT_EQ(state(drained), SandboxState::kStopping);
}

TEST_F(OutcomesTest, BlameTheFunctionForASandboxThatExits) {
  const SandboxId sandbox = run(1);
  parts_.outcomes.sandbox_exited({sandbox, {ErrorCode::kUnknown, "exit"}, "Runtime.ExitError"});
  EXPECT_EQ(outcome().outcome, Outcome::kFunctionError);
  EXPECT_EQ(outcome().error_type, "Runtime.ExitError");
  EXPECT_FALSE(parts_.pools.gpu.fleet().find(sandbox));
}

TEST_F(OutcomesTest, RestartAnInvocationThatItsHandlerNeverSawUntilItsTriesAreUsed) {
  parts_.options.restarts = 1;
  SandboxExited exited{run(1), {ErrorCode::kUnknown, "exit"}, "Runtime.ExitError", true};
  parts_.outcomes.sandbox_exited(exited);
  EXPECT_TRUE(parts_.got<CompleteInvocation>().empty());
  const auto starts = parts_.got<StartSandbox>();
  ASSERT_EQ(starts.size(), 2u);
  exited.sandbox = starts[1].sandbox;
  parts_.placements.sandbox_ready({exited.sandbox});
  parts_.outcomes.sandbox_exited(exited);
  EXPECT_EQ(outcome().outcome, Outcome::kFunctionError);
}

TEST_F(OutcomesTest, TryAStartThatThePlatformFailedOnceMore) {
  SandboxExited exited{start(1), {ErrorCode::kUnknown, "no process"}, "Sandbox.Failure"};
  parts_.outcomes.sandbox_exited(exited);
  const auto starts = parts_.got<StartSandbox>();
  ASSERT_EQ(starts.size(), 2u);
  exited.sandbox = starts[1].sandbox;
  parts_.outcomes.sandbox_exited(exited);
  EXPECT_EQ(outcome().outcome, Outcome::kRejected);
}

TEST_F(OutcomesTest, TryAStartWithoutRoomOrWithAMistakeNotAgain) {
  parts_.outcomes.sandbox_exited({start(1), {ErrorCode::kUnavailable, "full"}, "Sandbox.NoRoom"});
  EXPECT_EQ(outcome().outcome, Outcome::kRejected);
  parts_.at(1);
  parts_.outcomes.sandbox_exited({start(2), {ErrorCode::kUnknown, "exit"}, "Runtime.ExitError"});
  EXPECT_EQ(outcome().outcome, Outcome::kFunctionError);
}

TEST_F(OutcomesTest, EndARunThatTakesTooLongAndChargeItsTime) {
  const SandboxId sandbox = run(1);
  parts_.at(5);
  parts_.outcomes.expire(parts_.queues.pop_expired());
  EXPECT_EQ(outcome().error_type, "Sandbox.Timeout");
  EXPECT_EQ(parts_.flow(kF).execution.mean(), seconds(5));
  EXPECT_EQ(state(sandbox), SandboxState::kStopping);
}

TEST_F(OutcomesTest, RejectAnInvocationThatWaitedTooLong) {
  parts_.submit(1, kF);
  parts_.at(300);
  parts_.outcomes.expire(parts_.queues.pop_expired());
  EXPECT_EQ(outcome().error->code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(outcome().phases.queue, seconds(300));
}

TEST_F(OutcomesTest, EndAStartThatTakesTooLong) {
  const SandboxId sandbox = start(1);
  DevicePool& pool = parts_.pools.gpu;
  parts_.outcomes.expire(pool, *pool.fleet().find(sandbox));
  EXPECT_EQ(outcome().error_type, "Sandbox.InitTimeout");
  EXPECT_EQ(state(sandbox), SandboxState::kStopping);
}

TEST_F(OutcomesTest, CountASandboxThatDoesNotGoAsOneThatStays) {
  const SandboxId sandbox = parts_.run_one(1, kF);
  DevicePool& pool = parts_.pools.gpu;
  const auto slot = *pool.fleet().find(sandbox);
  pool.stop(slot, StopReason::kIdle);
  EXPECT_EQ(pool.fleet().devices()[0].sandboxes, 0u);
  parts_.outcomes.expire(pool, slot);
  EXPECT_EQ(pool.fleet().devices()[0].sandboxes, 1u);
}

TEST_F(OutcomesTest, GiveUpWhatALostDeviceHadAndTryItsStartsElsewhere) {
  parts_.options.start_retries = 1;
  const SandboxId idle = parts_.run_one(1, kF);
  parts_.submit(2, kF);
  ASSERT_TRUE(parts_.dispatch(kF));
  const SandboxId starting = start(3);
  parts_.at(1);
  parts_.outcomes.lose_device(0);
  EXPECT_EQ(state(idle), SandboxState::kBusy) << "it may still answer";
  EXPECT_EQ(state(starting), SandboxState::kStopping);
  EXPECT_TRUE(waits(3));
  parts_.outcomes.finished({{0, 2}, seconds(1), true});
  EXPECT_EQ(parts_.got<StopSandbox>().back().reason, StopReason::kDeviceLost);
}

TEST_F(OutcomesTest, FailARunWhoseMemoryDoesNotCome) {
  const SandboxId sandbox = run(1);
  DevicePool& pool = parts_.pools.gpu;
  parts_.outcomes.fail_move(pool, *pool.fleet().find(sandbox));
  EXPECT_EQ(outcome().error_type, "Sandbox.MoveFailed");
  EXPECT_EQ(state(sandbox), SandboxState::kStopping);
}

}  // namespace
}  // namespace lambent::dispatch
