#include "decide/scheduling/tenants.h"

#include <gtest/gtest.h>

#include <string>

namespace lambent::scheduling {
namespace {

constexpr TenantId kA{7};
constexpr TenantId kB{3};

Flow flow_of(uint32_t slot, Bytes device_memory = Bytes::gib(2),
             Bytes host_memory = Bytes::gib(1)) {
  Flow flow;
  flow.registered = true;
  flow.tenant_slot = slot;
  flow.device_memory = device_memory;
  flow.host_memory = host_memory;
  return flow;
}

Instant at(int64_t second) { return Instant(seconds(second)); }

TEST(Tenants, HaveSlotsInTheOrderInWhichTheyCameAndMatterFromTheSecondOn) {
  Tenants tenants;
  EXPECT_FALSE(tenants.matter());
  EXPECT_EQ(tenants.enter(kA), 0u);
  EXPECT_FALSE(tenants.matter());
  EXPECT_EQ(tenants.enter(kB), 1u);
  EXPECT_EQ(tenants.enter(kA), 0u);
  EXPECT_TRUE(tenants.matter());
  EXPECT_EQ(tenants.find(kB), 1u);
  EXPECT_EQ(tenants.find(TenantId{99}), std::nullopt);
  EXPECT_EQ(tenants.weight(0), 1);
}

TEST(Tenants, WithoutQuotasHoldNobody) {
  Tenants tenants;
  tenants.enter(kA);
  tenants.change(kB, 3, {}, at(0));
  for (int i = 0; i < 100; ++i) tenants.run_started(0);
  EXPECT_EQ(tenants.hold_of(flow_of(0)), WaitReason::kNone);
  EXPECT_EQ(tenants.hold_of(flow_of(55)), WaitReason::kNone);
  EXPECT_EQ(tenants.weight(1), 3);
}

TEST(Tenants, HoldBackWhatIsBeyondTheirConcurrencyUntilARunEnds) {
  Tenants tenants;
  tenants.change(kA, 1, {.concurrency = 2}, at(0));
  const uint64_t before = tenants.version();
  tenants.run_started(0);
  EXPECT_EQ(tenants.version(), before);
  tenants.run_started(0);
  EXPECT_NE(tenants.version(), before);
  EXPECT_EQ(tenants.hold_of(flow_of(0)), WaitReason::kTenantConcurrency);
  EXPECT_EQ(tenants.hold_on_host(flow_of(0)), WaitReason::kTenantConcurrency);
  EXPECT_TRUE(tenants.hold_all(0));
  tenants.run_ended(0);
  EXPECT_EQ(tenants.hold_of(flow_of(0)), WaitReason::kNone);
  tenants.change(kA, 1, {.concurrency = 1}, at(1));
  EXPECT_TRUE(tenants.hold_all(0)) << "it was lowered to what is in use";
}

TEST(Tenants, CountMemoryAtWorkAgainstTheirQuotas) {
  Tenants tenants;
  tenants.change(kA, 1, {.gpu_memory = Bytes::gib(6), .host_memory = Bytes::gib(3)}, at(0));
  EXPECT_TRUE(tenants.limit_memory());
  tenants.add_memory(0, true, {Bytes::gib(4), Bytes::gib(1)});
  EXPECT_EQ(tenants.hold_of(flow_of(0)), WaitReason::kNone) << "6 of 6 GiB";
  EXPECT_EQ(tenants.hold_of(flow_of(0, Bytes::gib(2) + Bytes(1))), WaitReason::kTenantGpuMemory);
  EXPECT_EQ(tenants.hold_on_host(flow_of(0, Bytes::gib(9))), WaitReason::kNone);
  EXPECT_EQ(tenants.hold_of(flow_of(0, Bytes::gib(1), Bytes::gib(3))),
            WaitReason::kTenantHostMemory);
  EXPECT_EQ(tenants.hold_of(flow_of(0, Bytes(0), Bytes::gib(2))), WaitReason::kNone);
  EXPECT_FALSE(tenants.hold_all(0)) << "smaller ones may start";
}

TEST(Tenants, AreCrowdedByIdleSandboxesAndNotByThoseAtWork) {
  Tenants tenants;
  tenants.change(kA, 1, {.gpu_memory = Bytes::gib(6), .host_memory = Bytes::gib(3)}, at(0));
  tenants.add_memory(0, true, {Bytes::gib(4), Bytes::gib(3)});
  EXPECT_FALSE(tenants.crowded(0, {Bytes::gib(4), Bytes::gib(4)}).gpu);
  tenants.add_memory(0, false, {Bytes::gib(2), Bytes(0)});
  EXPECT_FALSE(tenants.crowded(0, {}).gpu);
  EXPECT_TRUE(tenants.crowded(0, {.gpu = Bytes(1), .host = {}}).gpu);
  EXPECT_FALSE(tenants.crowded(0, {.gpu = {}, .host = Bytes(1)}).host) << "none of it is idle";
  tenants.take_memory(0, true, {Bytes::gib(4), Bytes::gib(3)});
  EXPECT_FALSE(tenants.crowded(0, {.gpu = Bytes::gib(4), .host = {}}).gpu);
}

TEST(Tenants, HoldBackRunsOnGpusWhenTheirHourIsUsedAndWakeWhenItComesBack) {
  Tenants tenants;
  tenants.change(kA, 1, {.gpu_time_per_hour = seconds(30)}, at(0));
  tenants.add_gpu_time(0, seconds(20), at(5));
  EXPECT_EQ(tenants.hold_of(flow_of(0)), WaitReason::kNone);
  EXPECT_EQ(tenants.next_release(at(5)), kNever);
  tenants.add_gpu_time(0, seconds(10), at(100));
  EXPECT_EQ(tenants.hold_of(flow_of(0)), WaitReason::kTenantGpuTime);
  EXPECT_EQ(tenants.hold_of(flow_of(0, Bytes(0))), WaitReason::kNone) << "it uses no GPU";
  EXPECT_EQ(tenants.hold_on_host(flow_of(0)), WaitReason::kNone);
  EXPECT_EQ(tenants.next_release(at(100)), at(3610));
  tenants.set_time(at(3609));
  EXPECT_TRUE(tenants.hold_all(0));
  tenants.set_time(at(3610));
  EXPECT_FALSE(tenants.hold_all(0));
  EXPECT_EQ(tenants.next_release(at(3610)), kNever);
}

TEST(Tenants, CountGpuTimeOnlyFromWhenTheyWereToldOf) {
  Tenants tenants;
  tenants.enter(kA);
  tenants.add_gpu_time(0, seconds(20), at(5));
  tenants.change(kA, 1, {.gpu_time_per_hour = seconds(10)}, at(6));
  EXPECT_FALSE(tenants.hold_all(0));
  tenants.add_gpu_time(0, seconds(20), at(7));
  EXPECT_TRUE(tenants.hold_all(0));
}

TEST(Tenants, NameTheQuotaThatIsTooSmallForAFunctionEvenAlone) {
  Tenants tenants;
  const auto named = [&](const RunQuotas& quotas, const Flow& flow) {
    tenants.change(kA, 1, quotas, at(0));
    return tenants.never_allows(flow);
  };
  EXPECT_EQ(named({}, flow_of(0)), WaitReason::kNone);
  EXPECT_EQ(named({.gpu_memory = Bytes::gib(2)}, flow_of(0)), WaitReason::kNone);
  EXPECT_EQ(named({.gpu_memory = Bytes::gib(1)}, flow_of(0)), WaitReason::kTenantGpuMemory);
  EXPECT_EQ(named({.host_memory = Bytes::mib(1)}, flow_of(0)), WaitReason::kTenantHostMemory);
  EXPECT_EQ(named({.gpu_time_per_hour = Duration(0)}, flow_of(0)), WaitReason::kTenantGpuTime);
  EXPECT_EQ(named({.gpu_time_per_hour = Duration(0)}, flow_of(0, Bytes(0))), WaitReason::kNone);
  EXPECT_EQ(named({.concurrency = 0}, flow_of(0, Bytes(0))), WaitReason::kTenantConcurrency);
}

TEST(Tenants, AreReadBackAsTheyWereWritten) {
  Tenants tenants;
  tenants.enter(kB);
  tenants.change(kA, 2.5,
                 {.concurrency = 9,
                  .gpu_memory = Bytes::gib(1),
                  .gpu_time_per_hour = seconds(5),
                  .host_memory = Bytes::gib(2)},
                 at(0));
  tenants.add_gpu_time(1, seconds(6), at(20));
  std::string bytes;
  StateArchive to(&bytes);
  tenants.archive(to);
  Tenants read;
  StateArchive from{std::string_view(bytes)};
  read.archive(from);
  ASSERT_TRUE(from.complete());
  EXPECT_TRUE(read.matter());
  EXPECT_TRUE(read.limit_memory());
  EXPECT_EQ(read.find(kA), 1u);
  EXPECT_EQ(read[1].weight, 2.5);
  EXPECT_EQ(read[1].quotas, tenants[1].quotas);
  EXPECT_TRUE(read.hold_all(1));
  EXPECT_EQ(read.next_release(at(20)), at(3630));
  for (size_t size = 0; size < bytes.size(); ++size) {
    StateArchive cut{std::string_view(bytes).substr(0, size)};
    Tenants broken;
    broken.archive(cut);
    EXPECT_FALSE(cut.complete()) << size;
  }
}

}  // namespace
}  // namespace lambent::scheduling
