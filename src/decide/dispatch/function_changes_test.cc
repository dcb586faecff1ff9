#include "decide/dispatch/function_changes.h"

#include <gtest/gtest.h>

#include "decide/dispatch/testing/parts.h"

namespace lambent::dispatch {
namespace {

using scheduling::RunningMean;

constexpr FunctionId kF{1};

FunctionProfile profile(uint64_t revision, Bytes memory) {
  return {.id = kF, .tenant = TenantId{1}, .revision = revision, .device_memory = memory};
}

TEST(FunctionChanges, IgnoreARevisionThatIsOlder) {
  Parts parts;
  parts.functions.registered({profile(2, Bytes::gib(1))});
  parts.functions.registered({profile(1, Bytes::gib(2))});
  EXPECT_EQ(parts.flow(kF).device_memory, Bytes::gib(1));
  EXPECT_EQ(parts.log.counters().ignored_events, 1u);
}

TEST(FunctionChanges, BeginWithWhatWasLearntBeforeARestart) {
  Parts parts;
  FunctionProfile known = profile(1, Bytes::gib(1));
  known.mean_execution = seconds(2);
  known.completed = 5;
  parts.functions.registered({known});
  EXPECT_EQ(parts.flow(kF).execution.mean(), seconds(2));
  EXPECT_EQ(parts.flow(kF).execution.samples(), 5u);
  EXPECT_FALSE(parts.flow(kF).cold_start.known());
}

TEST(FunctionChanges, BeginWithAsManyStartsAsWereMeasuredBeforeARestart) {
  Parts parts;
  FunctionProfile known = profile(1, Bytes::gib(1));
  known.has_cpu_variant = true;
  known.mean_cold_start = seconds(3);
  known.cold_starts = 7;
  known.mean_host_cold_start = seconds(9);
  known.host_cold_starts = 5;
  parts.functions.registered({known});
  EXPECT_EQ(parts.flow(kF).cold_start.mean(), seconds(3));
  EXPECT_EQ(parts.flow(kF).cold_start.samples(), 7u);
  EXPECT_EQ(parts.flow(kF).host_cold_start.samples(), 5u);
  // A journal of before they were counted.
  FunctionProfile older = profile(1, Bytes(0));
  older.id = FunctionId{2};
  older.mean_cold_start = seconds(3);
  parts.functions.registered({older});
  EXPECT_EQ(parts.flow(FunctionId{2}).cold_start.samples(), 1u);
}

TEST(FunctionChanges, StopIdleSandboxesOfTheRevisionBefore) {
  Parts parts;
  parts.functions.registered({profile(1, Bytes::gib(1))});
  const SandboxId old = parts.run_one(1, kF);
  parts.functions.registered({profile(2, Bytes::gib(1))});
  const auto stopped = parts.got<StopSandbox>();
  ASSERT_EQ(stopped.size(), 1u);
  EXPECT_EQ(stopped[0].sandbox, old);
  EXPECT_EQ(stopped[0].reason, StopReason::kRetired);
}

TEST(FunctionChanges, TakeWhatWaitsToTheHostWithAFunctionThatNeedsNoGpuAnyMore) {
  Parts parts;
  parts.functions.registered({profile(1, Bytes::gib(1))});
  parts.submit(1, kF);
  parts.flow(kF).execution = RunningMean(seconds(2), 5);
  parts.functions.registered({profile(2, Bytes(0))});
  EXPECT_EQ(parts.queues.pending(Processor::kGpu), 0u);
  EXPECT_EQ(parts.queues.pending(Processor::kHost), 1u);
  EXPECT_EQ(parts.flow(kF).pending, 1u);
  EXPECT_FALSE(parts.flow(kF).execution.known()) << "that was of the GPU";
  EXPECT_TRUE(parts.dispatch(kF));
}

TEST(FunctionChanges, LeaveNoFunctionTheWholeHost) {
  DispatchOptions options = one_gpu();
  options.host_concurrency = 8;
  Parts parts(options);
  FunctionProfile greedy = profile(1, Bytes(0));
  greedy.max_concurrency = 100;
  parts.functions.registered({greedy});
  EXPECT_EQ(parts.flow(kF).max_concurrency, 6u);
}

TEST(FunctionChanges, CountRunsOfAFunctionThatComesBack) {
  Parts parts;
  parts.functions.registered({profile(1, Bytes::gib(1))});
  parts.submit(1, kF);
  ASSERT_TRUE(parts.dispatch(kF));
  parts.functions.removed({kF});
  EXPECT_FALSE(parts.flow(kF).registered);
  parts.functions.registered({profile(2, Bytes::gib(1))});
  EXPECT_EQ(parts.flow(kF).in_flight, 1u);
}

TEST(FunctionChanges, RejectWhatWaitsOfAFunctionThatIsRemoved) {
  Parts parts;
  parts.functions.registered({profile(1, Bytes::gib(1))});
  parts.submit(1, kF);
  parts.functions.removed({kF});
  const auto outcomes = parts.got<CompleteInvocation>();
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_EQ(outcomes[0].error->code, ErrorCode::kNotFound);
  parts.functions.removed({kF});
  EXPECT_EQ(parts.log.counters().ignored_events, 1u);
}

}  // namespace
}  // namespace lambent::dispatch
