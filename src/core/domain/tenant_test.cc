#include "core/domain/tenant.h"
#include "core/domain/limits.h"

#include <gtest/gtest.h>

#include <limits>

namespace lambent {
namespace {

Tenant named(std::string name) {
  Tenant tenant;
  tenant.id = TenantId(2);
  tenant.name = std::move(name);
  return tenant;
}

std::string refusal_of(const Tenant& tenant) {
  const auto valid = validate(tenant);
  return valid.ok() ? "" : valid.error().message;
}

TEST(TenantTest, ANameHasLowerCaseLettersDigitsAndHyphens) {
  EXPECT_EQ(refusal_of(named("team-7")), "");
  EXPECT_EQ(refusal_of(named(std::string(limits::kTenantNameLength, 'a'))), "");
  EXPECT_NE(refusal_of(named("")), "");
  EXPECT_NE(refusal_of(named(std::string(limits::kTenantNameLength + 1, 'a'))), "");
  for (const char* name : {"Team", "a b", "a/b", "-a", "a\"b", "a\n", "\xc3\xa4"}) {
    EXPECT_NE(refusal_of(named(name)), "") << name;
  }
}

TEST(TenantTest, AWeightIsANumberWithinItsLimits) {
  for (const double weight : {0.0, -1.0, 1001.0, std::numeric_limits<double>::quiet_NaN(),
                              std::numeric_limits<double>::infinity()}) {
    Tenant tenant = named("a");
    tenant.weight = weight;
    EXPECT_EQ(refusal_of(tenant), "the weight must be 0.01 to 1000") << weight;
  }
}

TEST(TenantTest, AQuotaOfNothingIsOneButARateOfNothingIsNot) {
  Tenant tenant = named("a");
  tenant.quotas.functions = 0;
  tenant.quotas.gpu_time_per_hour = Duration(0);
  EXPECT_EQ(refusal_of(tenant), "");
  tenant.quotas.requests_per_second = 0;
  EXPECT_NE(refusal_of(tenant), "");
  tenant.quotas.requests_per_second = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(refusal_of(tenant), "");
}

}  // namespace
}  // namespace lambent
