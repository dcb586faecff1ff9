#include "node/tenants/secret_store.h"

#include <gtest/gtest.h>

#include "core/base/fd.h"
#include "core/domain/limits.h"
#include "node/catalog/testing/testing.h"

namespace lambent::tenants {
namespace {

class SecretStoreTest : public testing::Test {
 protected:
  SecretStoreTest() { start(std::string(32, 'k')); }

  void start(const std::string& key) {
    store_.reset();
    catalog_.reset();
    catalog_ = std::move(*catalog::Catalog::open(folder_ / "catalog.db", {}, loop_.post()));
    store_ =
        std::make_unique<SecretStore>(*catalog_, clock_, key, catalog_->load_access()->secrets);
    store_->set_users(
        {.functions = [this](TenantId, const std::string&) { return users_; },
         .changed =
             [this](TenantId, const std::string& name, const std::function<void()>& renewed) {
               changed_.push_back(name);
               renewed();
             }});
  }
  Result<SecretStatus> put(const std::string& name, const std::string& value,
                           TenantId tenant = kDefaultTenant) {
    return loop_.await<SecretStatus>(
        [&](auto done) { store_->put_secret(tenant, name, value, done); });
  }
  Result<SecretStatus> remove(const std::string& name) {
    return loop_.await<SecretStatus>(
        [&](auto done) { store_->remove_secret(kDefaultTenant, name, done); });
  }

  const TemporaryFolder folder_;
  FakeClock clock_;
  catalog::TestLoop loop_;
  std::unique_ptr<catalog::Catalog> catalog_;
  std::vector<std::string> users_;
  std::vector<std::string> changed_;
  std::unique_ptr<SecretStore> store_;
};

TEST_F(SecretStoreTest, AValueIsKeptAndReplaced) {
  ASSERT_TRUE(put("pw", "one").ok());
  EXPECT_EQ(store_->find_secret(kDefaultTenant, "pw"), "one");
  ASSERT_TRUE(put("pw", std::string("t\0o", 3)).ok());
  start(std::string(32, 'k'));
  EXPECT_EQ(store_->find_secret(kDefaultTenant, "pw"), std::string("t\0o", 3));
  EXPECT_EQ(changed_, (std::vector<std::string>{"pw", "pw"}));
}

TEST_F(SecretStoreTest, TheDatabaseHoldsNoValue) {
  ASSERT_TRUE(put("pw", "correct horse battery staple").ok());
  for (const char* file : {"catalog.db", "catalog.db-wal"}) {
    const std::string bytes = read_file(folder_ / file, 1 << 26).value();
    EXPECT_EQ(bytes.find("horse"), std::string::npos) << file;
  }
}

TEST_F(SecretStoreTest, WithAnotherKeyThereIsNoValue) {
  ASSERT_TRUE(put("pw", "one").ok());
  start(std::string(32, 'o'));
  EXPECT_FALSE(store_->find_secret(kDefaultTenant, "pw").has_value());
  EXPECT_EQ(store_->list_secrets(kDefaultTenant).size(), 1u);
  ASSERT_TRUE(put("pw", "two").ok());
  EXPECT_EQ(store_->find_secret(kDefaultTenant, "pw"), "two");
}

TEST_F(SecretStoreTest, OneThatFunctionsUseStays) {
  ASSERT_TRUE(put("pw", "one").ok());
  users_ = {"a", "b", "c", "d"};
  const auto refused = remove("pw");
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(refused.error().message.find("a, b, c and others"), std::string::npos);
  users_ = {};
  ASSERT_TRUE(remove("pw").ok());
  EXPECT_FALSE(store_->find_secret(kDefaultTenant, "pw").has_value());
  EXPECT_EQ(remove("pw").error().code, ErrorCode::kNotFound);
}

TEST_F(SecretStoreTest, NamesAndSizesHaveLimits) {
  EXPECT_EQ(put("a/b", "x").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(put("a", std::string(limits::kSecretValue.count + 1, 'x')).error().code,
            ErrorCode::kOutOfRange);
  EXPECT_TRUE(put("a", std::string(limits::kSecretValue.count, 'x')).ok());
  EXPECT_TRUE(put("b", "").ok());
  EXPECT_EQ(store_->find_secret(kDefaultTenant, "b"), "");
  EXPECT_EQ(put("a", "x", TenantId(99)).error().code, ErrorCode::kNotFound);
}

TEST_F(SecretStoreTest, TenantsDoNotSeeEachOther) {
  ASSERT_TRUE(put("pw", "one").ok());
  EXPECT_TRUE(store_->list_secrets(TenantId(2)).empty());
  EXPECT_FALSE(store_->find_secret(TenantId(2), "pw").has_value());
  store_->forget_tenant(kDefaultTenant);
  EXPECT_TRUE(store_->list_secrets(kDefaultTenant).empty());
}

}  // namespace
}  // namespace lambent::tenants
