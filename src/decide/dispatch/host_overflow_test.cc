#include "decide/dispatch/host_overflow.h"

#include <gtest/gtest.h>

#include "decide/dispatch/testing/parts.h"

namespace lambent::dispatch {
namespace {

using scheduling::Flow;
using scheduling::HostReason;
using scheduling::HybridRule;

constexpr FunctionId kF{1};
constexpr FunctionId kHostFunction{2};

Flow with_variant(Bytes memory) {
  Flow flow;
  flow.device_memory = memory;
  flow.has_cpu_variant = true;
  flow.declared_concurrency = 3;
  return flow;
}

TEST(HostOverflow, LetsAFunctionWaitThatNoGpuHoldsOnlyIfItHasAVariant) {
  Parts parts;
  Flow flow = with_variant(Bytes::gib(99));
  EXPECT_TRUE(parts.overflow.may_wait(flow));
  flow.has_cpu_variant = false;
  EXPECT_FALSE(parts.overflow.may_wait(flow));
  flow.device_memory = Bytes(0);
  EXPECT_TRUE(parts.overflow.may_wait(flow));
}

TEST(HostOverflow, KeepsAFunctionFromGpusThatAreTooSmallForIt) {
  Parts parts;
  EXPECT_EQ(parts.overflow.gpu_concurrency_of(with_variant(Bytes::gib(99))), 0u);
  EXPECT_EQ(parts.overflow.gpu_concurrency_of(with_variant(Bytes::gib(1))), 3u);
  parts.options.hybrid.rule = HybridRule::kOff;
  EXPECT_EQ(parts.overflow.gpu_concurrency_of(with_variant(Bytes::gib(99))), 3u);
}

class OverflowOfOne : public testing::Test {
 protected:
  OverflowOfOne() {
    parts_.functions.registered({{.id = kF,
                                  .tenant = TenantId{1},
                                  .device_memory = Bytes::gib(1),
                                  .has_cpu_variant = true}});
  }
  Flow& flow() { return parts_.flow(kF); }
  // One that runs on the host since `second`.
  PendingInvocation variant_since(int second) {
    PendingInvocation invocation;
    invocation.function = kF;
    invocation.on_host = true;
    invocation.host_reason = HostReason::kQueue;
    invocation.dispatched = Instant(seconds(second));
    return invocation;
  }
  HostOverflow& overflow() { return parts_.overflow; }

  Parts parts_;
};

TEST_F(OverflowOfOne, LearnsOfEachProcessorForItself) {
  PendingInvocation invocation = variant_since(1);
  overflow().learn_run(invocation, seconds(8), Instant(seconds(9)));
  invocation.on_host = false;
  overflow().learn_run(invocation, seconds(2), Instant(seconds(9)));
  EXPECT_EQ(flow().host_execution.mean(), seconds(8));
  EXPECT_EQ(flow().execution.mean(), seconds(2));
  EXPECT_EQ(flow().last_host_run, Instant(seconds(9)));
}

TEST_F(OverflowOfOne, CountsFailuresOfOneIncidentOnce) {
  overflow().note_failure(variant_since(1), Instant(seconds(5)));
  overflow().note_failure(variant_since(2), Instant(seconds(6)));
  EXPECT_EQ(flow().host_failures, 1u);
  overflow().note_success(variant_since(3));
  EXPECT_EQ(flow().host_failures, 1u) << "it was dispatched before the failure";
  overflow().note_failure(variant_since(7), Instant(seconds(8)));
  EXPECT_EQ(flow().host_failures, 2u);
  overflow().note_success(variant_since(9));
  EXPECT_EQ(flow().host_failures, 0u);
}

TEST_F(OverflowOfOne, ExpectsTheEndOfARunUntilItLeaves) {
  flow().execution = scheduling::RunningMean(seconds(4), 10);
  flow().cold_start = scheduling::RunningMean(seconds(3), 10);
  const InvocationSlot slot = parts_.submit(1, kF);
  parts_.queues.leave(slot, Instant(seconds(10)));
  ++flow().in_flight;
  overflow().dispatched_to_gpu(slot, true, Instant(seconds(10)));
  EXPECT_EQ(parts_.queues[slot].expected_end, Instant(seconds(14)));
  overflow().expect_end(slot, false, Instant(seconds(10)));
  EXPECT_EQ(parts_.queues[slot].expected_end, Instant(seconds(17)));
  overflow().leave(slot);
  EXPECT_EQ(parts_.queues[slot].expected_end, kNever);
  EXPECT_EQ(flow().in_flight, 0u);
}

TEST_F(OverflowOfOne, ChoosesTheHostWhileNoGpuIsHealthyUnlessNothingMayGo) {
  parts_.pools.gpu.fleet().set_reading(0, 0, false);
  parts_.submit(1, kF);
  EXPECT_FALSE(overflow().choose(false, Instant(seconds(100))));
  EXPECT_EQ(overflow().ask_again(), kNever);
  const auto choice = overflow().choose(true, Instant(seconds(100)));
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->function, kF);
  EXPECT_EQ(choice->reason, HostReason::kNoDevice);
}

TEST_F(OverflowOfOne, RanksFunctionsAgainOnlyWhileOneOfThemWaits) {
  parts_.options.hybrid = {.rule = HybridRule::kTopShare, .gpu_share = 0};
  flow().gpu_speedup = 2;
  overflow().add_function(flow());
  overflow().rank_functions(Instant(seconds(1)));
  EXPECT_EQ(flow().max_concurrency, 1u);
  parts_.submit(1, kF);
  overflow().rank_functions(Instant(seconds(1)));
  EXPECT_EQ(flow().max_concurrency, 0u);
}

TEST_F(OverflowOfOne, LeavesAQuarterOfTheHostToFunctionsWithoutGpu) {
  parts_.options.host_concurrency = 4;
  Parts parts(parts_.options);
  parts.functions.registered({{.id = kF,
                               .tenant = TenantId{1},
                               .max_concurrency = 8,
                               .device_memory = Bytes::gib(1),
                               .has_cpu_variant = true}});
  parts.add_function(kHostFunction, Bytes(0));
  parts.pools.gpu.fleet().set_reading(0, 0, false);
  for (uint64_t number = 1; number <= 4; ++number) parts.submit(number, kF);
  int sent = 0;
  while (const auto choice = parts.overflow.choose(true, Instant(seconds(100)))) {
    parts.placements.dispatch_on_host(*choice);
    ++sent;
  }
  EXPECT_EQ(sent, 3);
  parts.functions.removed({kHostFunction});
  EXPECT_TRUE(parts.overflow.choose(true, Instant(seconds(100))));
}

}  // namespace
}  // namespace lambent::dispatch
