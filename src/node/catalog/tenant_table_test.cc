#include "node/catalog/tenant_table.h"

#include <gtest/gtest.h>

#include "node/catalog/function_table.h"
#include "node/catalog/migrations.h"
#include "node/catalog/testing/testing.h"

namespace lambent::catalog {
namespace {

class TenantTableTest : public testing::Test {
 protected:
  TenantTableTest() : database_(std::move(*Database::open(folder_ / "catalog.db"))) {
    EXPECT_TRUE(migrate(*database_).ok());
  }

  static Tenant named(std::string name) {
    Tenant tenant;
    tenant.name = std::move(name);
    return tenant;
  }
  static Tenant with_every_field() {
    Tenant tenant = named("vision");
    tenant.weight = 2.5;
    tenant.quotas = {.functions = 3,
                     .concurrency = 4,
                     .gpu_memory = Bytes::gib(5),
                     .gpu_time_per_hour = seconds(600),
                     .host_memory = Bytes::gib(7),
                     .objects = Bytes::mib(8),
                     .disk = Bytes::mib(9),
                     .requests_per_second = 10.5};
    tenant.created_at = seconds(1'700'000'000);
    return tenant;
  }
  TokenRecord token_of(TenantId tenant, std::string id, Duration created_at = seconds(1)) {
    TokenRecord record;
    record.token = {.id = std::move(id),
                    .tenant = tenant,
                    .name = "ci",
                    .scopes = {Scope::kDeploy, Scope::kRead},
                    .created_at = created_at,
                    .expires_at = std::nullopt};
    record.secret_sha256 = std::string(32, '\xff');
    return record;
  }

  const TemporaryFolder folder_;
  std::unique_ptr<Database> database_;
};

TEST_F(TenantTableTest, TheDefaultTenantIsThereFromTheStart) {
  const auto tenants = *load_tenants(*database_);
  ASSERT_EQ(tenants.size(), 1u);
  EXPECT_EQ(tenants.front().id, kDefaultTenant);
  EXPECT_EQ(tenants.front().name, kDefaultTenantName);
  EXPECT_EQ(tenants.front().quotas, TenantQuotas());
}

TEST_F(TenantTableTest, EveryFieldComesBack) {
  Tenant tenant = *put_tenant(*database_, with_every_field());
  EXPECT_EQ(tenant.id, TenantId(2));
  EXPECT_EQ(load_tenants(*database_)->back(), tenant);
  tenant.quotas = {};
  tenant.weight = 1;
  EXPECT_TRUE(put_tenant(*database_, tenant).ok());
  EXPECT_EQ(load_tenants(*database_)->back(), tenant);
}

TEST_F(TenantTableTest, ANameIsOneTenants) {
  ASSERT_TRUE(put_tenant(*database_, named("a")).ok());
  EXPECT_EQ(put_tenant(*database_, named("a")).error().code, ErrorCode::kAlreadyExists);
}

TEST_F(TenantTableTest, AnIdIsNeverUsedAgain) {
  const TenantId first = put_tenant(*database_, named("a"))->id;
  ASSERT_TRUE(remove_tenant(*database_, first).ok());
  EXPECT_NE(put_tenant(*database_, named("a"))->id, first);
  EXPECT_EQ(remove_tenant(*database_, first).error().code, ErrorCode::kNotFound);
  Tenant gone = named("b");
  gone.id = first;
  EXPECT_EQ(put_tenant(*database_, gone).error().code, ErrorCode::kNotFound);
}

TEST_F(TenantTableTest, ATenantWithFunctionsStays) {
  const TenantId tenant = put_tenant(*database_, named("a"))->id;
  FunctionSpec spec = *put_function(*database_, sample_function("f", tenant));
  EXPECT_EQ(remove_tenant(*database_, tenant).error().code, ErrorCode::kFailedPrecondition);
  ASSERT_TRUE(remove_function(*database_, spec.name).ok());
  EXPECT_TRUE(remove_tenant(*database_, tenant).ok());
}

TEST_F(TenantTableTest, TokensComeBackInOrderOfCreation) {
  TokenRecord young = token_of(kDefaultTenant, "A", seconds(2));
  TokenRecord old = token_of(kDefaultTenant, "B", seconds(1));
  old.token.expires_at = seconds(5);
  ASSERT_TRUE(put_token(*database_, young).ok());
  ASSERT_TRUE(put_token(*database_, old).ok());
  EXPECT_EQ(*load_tokens(*database_), (std::vector<TokenRecord>{old, young}));
  ASSERT_TRUE(remove_token(*database_, "B").ok());
  EXPECT_EQ(*load_tokens(*database_), std::vector<TokenRecord>{young});
  EXPECT_EQ(remove_token(*database_, "B").error().code, ErrorCode::kNotFound);
}

TEST_F(TenantTableTest, ACertificatesNameHasOneTokenInAllTenants) {
  TokenRecord first = token_of(kDefaultTenant, "A");
  first.token.certificate = "email:alice@team.example";
  ASSERT_TRUE(put_token(*database_, first).ok());
  EXPECT_EQ(*load_tokens(*database_), std::vector<TokenRecord>{first});
  TokenRecord second = token_of(put_tenant(*database_, named("a"))->id, "B");
  second.token.certificate = first.token.certificate;
  EXPECT_EQ(put_token(*database_, second).error().code, ErrorCode::kAlreadyExists);
  ASSERT_TRUE(remove_token(*database_, "A").ok());
  EXPECT_TRUE(put_token(*database_, second).ok());
}

TEST_F(TenantTableTest, TokensGoWithTheirTenant) {
  const TenantId tenant = put_tenant(*database_, named("a"))->id;
  ASSERT_TRUE(put_token(*database_, token_of(tenant, "A")).ok());
  ASSERT_TRUE(remove_tenant(*database_, tenant).ok());
  EXPECT_TRUE(load_tokens(*database_)->empty());
  EXPECT_EQ(put_token(*database_, token_of(tenant, "A")).error().code, ErrorCode::kNotFound);
}

TEST_F(TenantTableTest, GpuTimesAreReplacedAndGoWithTheirTenant) {
  const Tenant vision = *put_tenant(*database_, named("vision"));
  GpuTimeRecord record{
      .tenant = vision.id,
      .used = {{seconds(1'700'000'005), seconds(3)}, {seconds(1'700'000'015), milliseconds(1)}}};
  ASSERT_TRUE(save_gpu_times(*database_, {record}).ok());
  EXPECT_EQ(*load_gpu_times(*database_), std::vector{record});
  record.used.erase(record.used.begin());
  // Of one that is gone there is nothing to save, and the other's is saved all the same.
  ASSERT_TRUE(save_gpu_times(*database_, {{TenantId(99), record.used}, record}).ok());
  EXPECT_EQ(*load_gpu_times(*database_), std::vector{record});
  ASSERT_TRUE(remove_tenant(*database_, vision.id).ok());
  EXPECT_TRUE(load_gpu_times(*database_)->empty());
}

TEST_F(TenantTableTest, SecretsAreReplacedAndGoWithTheirTenant) {
  const TenantId tenant = put_tenant(*database_, named("a"))->id;
  SecretRecord secret = {tenant, "pw", std::string("a\0b", 3), seconds(1)};
  ASSERT_TRUE(put_secret(*database_, secret).ok());
  EXPECT_EQ(*load_secrets(*database_), std::vector<SecretRecord>{secret});
  secret.sealed = "other";
  ASSERT_TRUE(put_secret(*database_, secret).ok());
  EXPECT_EQ(*load_secrets(*database_), std::vector<SecretRecord>{secret});
  EXPECT_EQ(remove_secret(*database_, kDefaultTenant, "pw").error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(remove_tenant(*database_, tenant).ok());
  EXPECT_TRUE(load_secrets(*database_)->empty());
  EXPECT_EQ(put_secret(*database_, secret).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace lambent::catalog
