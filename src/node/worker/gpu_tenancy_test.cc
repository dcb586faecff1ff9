#include "node/worker/gpu_tenancy.h"

#include <gtest/gtest.h>

namespace lambent::worker {
namespace {

const FunctionName kMine{TenantId(1), "f"}, kMyOther{TenantId(1), "g"}, kTheirs{TenantId(2), "f"};

TEST(GpuTenancy, WhatIsForOneTenantIsGivenToOneAtATime) {
  GpuTenancy tenancy(true);
  ASSERT_TRUE(tenancy.admit(kMine).ok());
  ASSERT_TRUE(tenancy.admit(kMyOther).ok());
  const auto refused = tenancy.admit(kTheirs);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  tenancy.release(kMine);
  EXPECT_FALSE(tenancy.admit(kTheirs).ok()) << "its other function is there";
  tenancy.release(kMyOther);
  EXPECT_TRUE(tenancy.admit(kTheirs).ok());
  EXPECT_FALSE(tenancy.admit(kMine).ok());
}

TEST(GpuTenancy, ARefusalChangesNothing) {
  GpuTenancy tenancy(true);
  ASSERT_TRUE(tenancy.admit(kMine).ok());
  ASSERT_FALSE(tenancy.admit(kTheirs).ok());
  tenancy.release(kTheirs);
  EXPECT_TRUE(tenancy.admit(kMine).ok()) << "again, as when it is updated";
  tenancy.release(kMine);
  EXPECT_TRUE(tenancy.admit(kTheirs).ok());
}

TEST(GpuTenancy, ARealGpuServesAll) {
  GpuTenancy tenancy(false);
  EXPECT_TRUE(tenancy.admit(kMine).ok());
  EXPECT_TRUE(tenancy.admit(kTheirs).ok());
}

TEST(GpuTenancy, FunctionsThatMayUseAGpuAreKnownBeforeTheirPackageIsRead) {
  FunctionSpec spec;
  EXPECT_FALSE(uses_a_gpu(spec));
  spec.gpu.memory = Bytes(1);
  EXPECT_TRUE(uses_a_gpu(spec));
  spec.gpu.memory = Bytes(0);
  spec.kind = FunctionKind::kKernel;
  EXPECT_TRUE(uses_a_gpu(spec));
  spec.kind = FunctionKind::kPipeline;
  EXPECT_TRUE(uses_a_gpu(spec));
  spec.kind = FunctionKind::kWorkflow;
  EXPECT_FALSE(uses_a_gpu(spec));
}

}  // namespace
}  // namespace lambent::worker
