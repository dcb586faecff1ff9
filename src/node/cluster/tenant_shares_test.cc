#include "node/cluster/tenant_shares.h"

#include <gtest/gtest.h>

namespace lambent::cluster {
namespace {

TenantQuotas all_quotas() {
  return {.functions = 5,
          .concurrency = 12,
          .gpu_memory = Bytes::gib(24),
          .gpu_time_per_hour = seconds(60),
          .host_memory = Bytes::gib(12),
          .objects = Bytes::mib(100),
          .disk = Bytes::gib(1),
          .requests_per_second = 30};
}

TEST(TenantSharesTest, ANodeWithoutOthersHasAllOfIt) {
  EXPECT_EQ(share_of(all_quotas(), {}, {}, {}), all_quotas());
}

TEST(TenantSharesTest, WhatIsNotLimitedStaysSo) {
  EXPECT_EQ(share_of({}, {}, {}, {.answers = {TenantUse{}, TenantUse{}}}), TenantQuotas{});
}

TEST(TenantSharesTest, IdleNodesHaveEqualPartsAndTheFirstTakesObjectsAndGpuTime) {
  const TenantQuotas share =
      share_of(all_quotas(), {}, {}, {.answers = {std::nullopt, TenantUse{}}});
  EXPECT_EQ(share.concurrency, 4u);
  EXPECT_EQ(share.gpu_memory, Bytes::gib(8));
  EXPECT_EQ(share.host_memory, Bytes::gib(4));
  EXPECT_EQ(share.requests_per_second, 10);
  EXPECT_EQ(share.objects, Bytes::mib(100));
  EXPECT_EQ(share.gpu_time_per_hour, seconds(60));
  // The same at all nodes.
  EXPECT_EQ(share.functions, 5u);
  EXPECT_EQ(share.disk, Bytes::gib(1));
}

TEST(TenantSharesTest, WhatOthersUseIsNotHere) {
  const TenantUse busy{.tenant = "team",
                       .running = {12, 40},
                       .gpu_memory = {Bytes::gib(24).count, Bytes::gib(60).count},
                       .host_memory = {Bytes::gib(2).count, Bytes::gib(2).count},
                       .requests = {30'000, 90'000},
                       .gpu_time_in_hour = seconds(70),
                       .objects = Bytes::mib(100)};
  const LargestRun largest{Bytes::gib(10), Bytes::gib(1)};
  const TenantQuotas share = share_of(all_quotas(), {}, largest, {.answers = {busy}});
  // One more of each: a node may always run one.
  EXPECT_EQ(share.concurrency, 1u);
  EXPECT_EQ(share.gpu_memory, Bytes::gib(10));
  EXPECT_EQ(share.host_memory, Bytes::gib(5));
  EXPECT_EQ(share.gpu_time_per_hour, Duration(1));
  EXPECT_EQ(share.objects, Bytes(0));
  EXPECT_EQ(share.requests_per_second, 0.001);
}

TEST(TenantSharesTest, ANodeThatIsCutOffHasItsPart) {
  const TenantQuotas share = share_of(all_quotas(), {}, {}, {.silent = 2});
  EXPECT_EQ(share.concurrency, 4u);
  EXPECT_EQ(share.gpu_time_per_hour, seconds(20));
}

}  // namespace
}  // namespace lambent::cluster
