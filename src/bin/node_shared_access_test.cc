// A node's part of the tokens and secrets of its cluster, over a catalog in SQLite.
#include "bin/node_shared_access.h"

#include <gtest/gtest.h>

#include "bin/shared_access_copy.h"
#include "core/base/fd.h"
#include "node/catalog/shared_schema.h"
#include "node/catalog/testing/testing.h"

namespace lambent {
namespace {

class NodeSharedAccessTest : public testing::Test {
 protected:
  NodeSharedAccessTest() {
    auto own = std::move(*catalog::Database::open(folder_ / "shared.db"));
    EXPECT_TRUE(catalog::migrate_shared(*own).ok());
    others_ = std::move(*catalog::Database::open(folder_ / "shared.db"));
    shared_ = std::make_unique<catalog::SharedCatalog>(
        std::move(own), catalog::Owner{.node = "a", .life = "1"}, clock_, loop_.post());
    catalog_ = std::move(*catalog::Catalog::open(folder_ / "catalog.db", {}, loop_.post()));
    const auto records = *catalog_->load_access();
    const std::string key(32, 'k');
    control_ = std::make_unique<tenants::AccessControl>(*catalog_, clock_, key, records,
                                                        tenants::TenantObserver{});
    secrets_ = std::make_unique<tenants::SecretStore>(*catalog_, clock_, key, records.secrets);
    access_ = std::make_unique<NodeSharedAccess>(
        *shared_, SharedAccessKeys{.secrets = key, .signing = key}, copy(), log_);
    access_->connect(*control_, *secrets_, [](const auto& work, const auto& completion) {
      work();
      completion();
      return true;
    });
  }

  std::string copy() const { return folder_ / "copied_access.json"; }
  std::string issue() {
    const auto issued = loop_.await<IssuedToken>([&](auto done) {
      control_->create_token({.tenant = kDefaultTenant,
                              .name = "ci",
                              .scopes = {Scope::kInvoke},
                              .lifetime = std::nullopt,
                              .certificate = {}},
                             done);
    });
    EXPECT_TRUE(issued.ok());
    return issued.ok() ? issued->secret : "";
  }
  Result<void> keep(const std::string& name, const std::string& value) {
    const auto kept = loop_.await<SecretStatus>(
        [&](auto done) { secrets_->put_secret(kDefaultTenant, name, value, done); });
    return kept.ok() ? Result<void>() : kept.error();
  }
  std::string id_of(const std::string& secret) { return control_->authenticate(secret)->token; }
  void look() {
    bool looked = false;
    access_->look([&] { looked = true; });
    while (!looked && !HasFatalFailure()) loop_.run_one();
  }
  // What other nodes keep has a tenant that this one has not heard of, so that it is applied again
  // with each look.
  void know_of_a_strange_tenant() {
    ASSERT_TRUE(others_->begin().ok());
    const catalog::SharedSecret secret{"strange", "pw", "sealed", seconds(1)};
    ASSERT_TRUE(catalog::put_shared_secret(*others_, secret, {"strange", "{}"}).ok());
    ASSERT_TRUE(others_->run("COMMIT").ok());
    look();
  }
  void lose_the_catalog() {
    ASSERT_TRUE(others_->run("ALTER TABLE shared_access RENAME TO away").ok());
  }

  const TemporaryFolder folder_;
  FakeClock clock_;
  NullLogSink log_;
  catalog::TestLoop loop_;
  std::unique_ptr<catalog::Database> others_;
  std::unique_ptr<catalog::SharedCatalog> shared_;
  std::unique_ptr<catalog::Catalog> catalog_;
  std::unique_ptr<tenants::AccessControl> control_;
  std::unique_ptr<tenants::SecretStore> secrets_;
  std::unique_ptr<NodeSharedAccess> access_;
};

TEST_F(NodeSharedAccessTest, ATokenThatWasRevokedStaysSoWhileTheCatalogCannotBeRead) {
  know_of_a_strange_tenant();
  const std::string token = issue();
  look();
  const std::string id = id_of(token);
  ASSERT_TRUE(
      loop_.await<Token>([&](auto done) { control_->revoke_token(kDefaultTenant, id, done); })
          .ok());
  lose_the_catalog();
  look();
  EXPECT_FALSE(control_->authenticate(token).ok());
  EXPECT_TRUE(read_shared_access_text(*read_file(copy(), 1 << 20)).tokens.empty());
}

TEST_F(NodeSharedAccessTest, WhatWasMadeStaysWhileTheCatalogCannotBeRead) {
  know_of_a_strange_tenant();
  const std::string token = issue();
  ASSERT_TRUE(keep("pw", "one").ok());
  lose_the_catalog();
  look();
  EXPECT_TRUE(control_->authenticate(token).ok());
  EXPECT_EQ(secrets_->find_secret(kDefaultTenant, "pw"), "one");
  const catalog::SharedAccess copied = read_shared_access_text(*read_file(copy(), 1 << 20));
  EXPECT_EQ(copied.tokens.size(), 1U);
  EXPECT_EQ(copied.secrets.size(), 2U);
}

TEST_F(NodeSharedAccessTest, ASecretThatWasRemovedStaysAway) {
  know_of_a_strange_tenant();
  ASSERT_TRUE(keep("pw", "one").ok());
  look();
  ASSERT_TRUE(loop_
                  .await<SecretStatus>(
                      [&](auto done) { secrets_->remove_secret(kDefaultTenant, "pw", done); })
                  .ok());
  lose_the_catalog();
  look();
  EXPECT_EQ(secrets_->find_secret(kDefaultTenant, "pw"), std::nullopt);
}

}  // namespace
}  // namespace lambent
