#include "node/worker/function_quotas.h"

#include <gtest/gtest.h>

namespace lambent::worker {
namespace {

constexpr TenantId kTeam{7};

class FunctionQuotasTest : public testing::Test {
 protected:
  FunctionQuotasTest() {
    Tenant tenant;
    tenant.id = kTeam;
    tenant.name = "team";
    tenant.quotas.functions = 2;
    tenant.quotas.disk = Bytes(100);
    quotas_.set(tenant);
  }
  std::string refusal(uint64_t functions, uint64_t code, uint64_t new_functions,
                      uint64_t new_code) {
    const auto checked = quotas_.check(kTeam, {.functions = functions, .disk = Bytes(code)},
                                       {.functions = new_functions, .disk = Bytes(new_code)});
    if (checked.ok()) return "";
    EXPECT_EQ(checked.error().code, ErrorCode::kResourceExhausted);
    return checked.error().message;
  }

  FunctionQuotas quotas_;
};

TEST_F(FunctionQuotasTest, ATenantMayHaveExactlyItsQuota) {
  EXPECT_EQ(refusal(1, 50, 1, 50), "");
  EXPECT_NE(refusal(2, 50, 1, 1).find("2 functions"), std::string::npos);
  EXPECT_NE(refusal(1, 50, 1, 51).find("quota of disk"), std::string::npos);
}

TEST_F(FunctionQuotasTest, WhatIsBeingDeployedCounts) {
  quotas_.reserve(kTeam, {.functions = 1, .disk = Bytes(60)});
  EXPECT_NE(refusal(1, 0, 1, 0), "");
  EXPECT_NE(refusal(0, 0, 0, 41), "");
  quotas_.release(kTeam, {.functions = 1, .disk = Bytes(60)});
  EXPECT_EQ(refusal(1, 0, 1, 41), "");
}

TEST_F(FunctionQuotasTest, OneThatHasMoreThanALoweredQuotaMayStillShrink) {
  EXPECT_EQ(refusal(5, 500, 0, 0), "");
  EXPECT_NE(refusal(5, 500, 0, 1), "");
}

TEST_F(FunctionQuotasTest, OtherTenantsHaveNoQuota) {
  EXPECT_TRUE(quotas_.check(TenantId(8), {.functions = 1000}, {.functions = 1}).ok());
  quotas_.remove(kTeam);
  EXPECT_EQ(refusal(1000, 1000, 1, 1), "");
}

}  // namespace
}  // namespace lambent::worker
