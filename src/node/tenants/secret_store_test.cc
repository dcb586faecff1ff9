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

// ---- With the other nodes of a cluster

class FakeSharedSecrets final : public SharedSecrets {
 public:
  std::string name_of(TenantId tenant) const override {
    return tenant == kDefaultTenant ? "default" : "team";
  }
  Result<TenantId> tenant_of(const std::string& name) const override {
    if (name == "default") return kDefaultTenant;
    if (name == "team" && knows_team) return TenantId(7);
    return Error{ErrorCode::kNotFound, "no such tenant"};
  }
  void put_secret(const catalog::SharedSecret& secret,
                  std::function<void(Result<void>)> done) override {
    if (is_away) return done(Error{ErrorCode::kUnavailable, "away"});
    std::erase_if(secrets, [&](const auto& each) { return each.name == secret.name; });
    secrets.push_back(secret);
    done({});
  }
  void remove_secret(const std::string&, const std::string& name,
                     std::function<void(Result<void>)> done) override {
    std::erase_if(secrets, [&](const auto& each) { return each.name == name; });
    done({});
  }

  std::vector<catalog::SharedSecret> secrets;
  bool knows_team = false;
  bool is_away = false;
};

class SharedSecretsTest : public SecretStoreTest {
 protected:
  void share() { store_->share(&shared_, std::string(32, 's')); }

  FakeSharedSecrets shared_;
};

TEST_F(SharedSecretsTest, AValueIsReadByEveryNodeWithTheKeyOfAll) {
  share();
  ASSERT_TRUE(put("pw", "one").ok());
  ASSERT_EQ(shared_.secrets.size(), 1U);
  EXPECT_EQ(shared_.secrets[0].sealed.find("one"), std::string::npos);
  // Another node, with a key of its own.
  start(std::string(32, 'x'));
  share();
  EXPECT_EQ(store_->find_secret(kDefaultTenant, "pw"), std::nullopt);
  changed_.clear();
  EXPECT_EQ(store_->take_shared(shared_.secrets), 0U);
  EXPECT_EQ(store_->find_secret(kDefaultTenant, "pw"), "one");
  EXPECT_EQ(changed_, std::vector<std::string>{"pw"});
  // The same again renews nothing.
  store_->take_shared(shared_.secrets);
  EXPECT_EQ(changed_.size(), 1U);
  EXPECT_EQ(store_->unreadable(), 0U);
  store_->share(&shared_, std::string(32, 'w'));
  EXPECT_EQ(store_->unreadable(), 1U);
}

TEST_F(SharedSecretsTest, AValueThatWasMovedToAnotherNameDoesNotOpen) {
  share();
  ASSERT_TRUE(put("pw", "one").ok());
  shared_.secrets[0].name = "other";
  store_->take_shared(shared_.secrets);
  EXPECT_EQ(store_->find_secret(kDefaultTenant, "other"), std::nullopt);
}

TEST_F(SharedSecretsTest, OneThatANodeHadGivesWayToThatOfAllForGood) {
  ASSERT_TRUE(put("pw", "own").ok());
  share();
  EXPECT_EQ(store_->find_secret(kDefaultTenant, "pw"), "own");
  ASSERT_TRUE(put("pw", "of all").ok());
  EXPECT_EQ(store_->find_secret(kDefaultTenant, "pw"), "of all");
  ASSERT_TRUE(remove("pw").ok());
  EXPECT_TRUE(shared_.secrets.empty());
  start(std::string(32, 'k'));
  EXPECT_EQ(store_->find_secret(kDefaultTenant, "pw"), std::nullopt);
}

TEST_F(SharedSecretsTest, WhatIsGoneThereIsGoneHereAndOwnOnesStay) {
  ASSERT_TRUE(put("own", "value").ok());
  share();
  ASSERT_TRUE(put("pw", "one").ok());
  EXPECT_EQ(store_->take_shared({}), 0U);
  EXPECT_EQ(store_->find_secret(kDefaultTenant, "pw"), std::nullopt);
  EXPECT_EQ(store_->find_secret(kDefaultTenant, "own"), "value");
}

TEST_F(SharedSecretsTest, WithoutWhatIsSharedNothingChanges) {
  share();
  shared_.is_away = true;
  EXPECT_EQ(put("pw", "one").error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(store_->list_secrets(kDefaultTenant).empty());
}

TEST_F(SharedSecretsTest, OnesOfATenantThatIsNotKnownYetAreToldOf) {
  share();
  const catalog::SharedSecret secret{"team", "pw", "sealed", seconds(1)};
  EXPECT_EQ(store_->take_shared({secret}), 1U);
  shared_.knows_team = true;
  EXPECT_EQ(store_->take_shared({secret}), 0U);
  EXPECT_EQ(store_->list_secrets(TenantId(7)).size(), 1U);
}

}  // namespace
}  // namespace lambent::tenants
