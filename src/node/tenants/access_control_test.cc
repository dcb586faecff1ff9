#include "node/tenants/access_control.h"
#include "core/domain/limits.h"

#include <gtest/gtest.h>

#include "core/base/fd.h"
#include "decide/access/token_table.h"
#include "node/catalog/testing/testing.h"

namespace lambent::tenants {
namespace {

class AccessControlTest : public testing::Test {
 protected:
  AccessControlTest() { start(); }

  void start() {
    control_.reset();
    catalog_.reset();
    catalog_ = std::move(*catalog::Catalog::open(folder_ / "catalog.db", {}, loop_.post()));
    control_ = std::make_unique<AccessControl>(
        *catalog_, clock_, std::string(32, 'k'), *catalog_->load_access(),
        TenantObserver{.changed = [this](const Tenant& tenant) { changed_.push_back(tenant); },
                       .shared = [this](const Tenant& tenant) { shared_.push_back(tenant); },
                       .removed = [this](TenantId tenant) { removed_.push_back(tenant); }});
  }
  Result<Tenant> create(const std::string& name, double weight = 1) {
    Tenant tenant;
    tenant.name = name;
    tenant.weight = weight;
    return loop_.await<Tenant>([&](auto done) { control_->create_tenant(tenant, done); });
  }
  Result<IssuedToken> issue(TenantId tenant, Scopes scopes = {Scope::kInvoke},
                            std::optional<Duration> lifetime = std::nullopt,
                            const std::string& name = "ci") {
    return loop_.await<IssuedToken>([&](auto done) {
      control_->create_token({.tenant = tenant,
                              .name = name,
                              .scopes = scopes,
                              .lifetime = lifetime,
                              .certificate = {}},
                             done);
    });
  }
  Result<IssuedToken> issue_for_certificate(TenantId tenant, const std::string& name) {
    return loop_.await<IssuedToken>([&](auto done) {
      control_->create_token({.tenant = tenant,
                              .name = "alice",
                              .scopes = {Scope::kRead},
                              .lifetime = std::nullopt,
                              .certificate = name},
                             done);
    });
  }
  Result<Token> revoke(TenantId tenant, const std::string& id) {
    return loop_.await<Token>([&](auto done) { control_->revoke_token(tenant, id, done); });
  }

  const TemporaryFolder folder_;
  FakeClock clock_;
  catalog::TestLoop loop_;
  std::unique_ptr<catalog::Catalog> catalog_;
  std::vector<Tenant> changed_, shared_;
  std::vector<TenantId> removed_;
  std::unique_ptr<AccessControl> control_;
};

TEST_F(AccessControlTest, ATokenIsItsPrincipalAfterARestartToo) {
  const Tenant team = create("team").value();
  const IssuedToken issued = issue(team.id, {Scope::kRead, Scope::kInvoke}).value();
  const Principal principal = {team.id, {Scope::kRead, Scope::kInvoke}, issued.token.id};
  EXPECT_EQ(control_->authenticate(issued.secret).value(), principal);
  start();
  EXPECT_EQ(control_->authenticate(issued.secret).value(), principal);
  const auto signer = control_->find_signer(issued.token.id).value();
  EXPECT_EQ(signer.principal, principal);
  EXPECT_EQ(signer.signing_secret, issued.signing_secret);
}

TEST_F(AccessControlTest, APartOfTheQuotasHoldsUntilTheQuotasChange) {
  Tenant team = create("team").value();
  team.quotas.requests_per_second = 30;
  const auto update = [&] {
    return loop_.await<Tenant>([&](auto done) { control_->update_tenant(team, done); }).ok();
  };
  ASSERT_TRUE(update());
  control_->set_share(team.id, {.requests_per_second = 10});
  const auto taken_at_once = [&] {
    clock_.advance(seconds(60));
    int taken = 0;
    while (!control_->admit_request(team.id).refusal) ++taken;
    return taken;
  };
  EXPECT_EQ(taken_at_once(), 10);
  EXPECT_EQ(shared_.back().quotas.requests_per_second, 10);
  EXPECT_EQ(control_->find_tenant("team")->quotas.requests_per_second, 30) << "what is asked for";
  team.weight = 2;
  ASSERT_TRUE(update());
  EXPECT_EQ(taken_at_once(), 10);
  team.quotas.requests_per_second = 20;
  ASSERT_TRUE(update());
  EXPECT_EQ(taken_at_once(), 20);
  EXPECT_EQ(control_->request_counts(team.id).taken, 40U);
  EXPECT_EQ(control_->request_counts(team.id).asked, 43U);
  control_->set_share(TenantId(77), {});  // one that is gone
}

TEST_F(AccessControlTest, AnAccessKeyIdHasTheFormOfAwsAndSecretsDiffer) {
  const IssuedToken one = issue(kDefaultTenant).value();
  const IssuedToken other = issue(kDefaultTenant).value();
  EXPECT_EQ(one.token.id.size(), 20u);
  EXPECT_TRUE(one.token.id.starts_with("LAMB"));
  EXPECT_NE(one.token.id, other.token.id);
  EXPECT_NE(one.secret, other.secret);
  EXPECT_NE(one.signing_secret, other.signing_secret);
  EXPECT_EQ(one.secret.find(one.signing_secret), std::string::npos);
  EXPECT_FALSE(control_->authenticate(access::bearer_token(one.token.id, one.signing_secret)).ok());
}

TEST_F(AccessControlTest, TheDatabaseHoldsNoSecret) {
  const IssuedToken issued = issue(kDefaultTenant).value();
  const std::string secret = issued.secret.substr(issued.secret.find('_', 9) + 1);
  for (const char* file : {"catalog.db", "catalog.db-wal"}) {
    const std::string bytes = read_file(folder_ / file, 1 << 26).value();
    EXPECT_EQ(bytes.find(secret), std::string::npos) << file;
    EXPECT_EQ(bytes.find(issued.signing_secret), std::string::npos) << file;
  }
}

TEST_F(AccessControlTest, ARevokedTokenIsWorthNothingAtOnceAndAfterARestart) {
  const IssuedToken issued = issue(kDefaultTenant).value();
  const Tenant other = create("other").value();
  EXPECT_EQ(revoke(other.id, issued.token.id).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(control_->authenticate(issued.secret).ok());
  std::optional<Result<Token>> answer;
  control_->revoke_token(kDefaultTenant, issued.token.id, [&](auto token) { answer = token; });
  EXPECT_FALSE(control_->authenticate(issued.secret).ok());
  EXPECT_FALSE(control_->find_signer(issued.token.id).ok());
  loop_.run_one();
  EXPECT_TRUE(answer->ok());
  start();
  EXPECT_FALSE(control_->authenticate(issued.secret).ok());
}

TEST_F(AccessControlTest, ATokenExpires) {
  const IssuedToken issued = issue(kDefaultTenant, {Scope::kRead}, seconds(10)).value();
  clock_.advance(seconds(9));
  EXPECT_TRUE(control_->authenticate(issued.secret).ok());
  clock_.advance(seconds(1));
  EXPECT_FALSE(control_->authenticate(issued.secret).ok());
  EXPECT_EQ(control_->list_tokens(kDefaultTenant).size(), 1u);
}

TEST_F(AccessControlTest, ACertificateIsItsTokensPrincipalAfterARestartTooAndUntilItIsRevoked) {
  const Tenant team = create("team").value();
  const IssuedToken issued = issue_for_certificate(team.id, "email:alice@team.example").value();
  EXPECT_EQ(issued.secret, "");
  EXPECT_EQ(issued.signing_secret, "");
  EXPECT_FALSE(control_->find_signer(issued.token.id).ok());
  const std::vector<std::string> names = {"email:alice@team.example"};
  const Principal principal = {team.id, {Scope::kRead}, issued.token.id};
  EXPECT_EQ(control_->authenticate_certificate(names).value(), principal);
  start();
  EXPECT_EQ(control_->authenticate_certificate(names).value(), principal);
  ASSERT_TRUE(revoke(team.id, issued.token.id).ok());
  EXPECT_EQ(control_->authenticate_certificate(names).value(), std::nullopt);
}

TEST_F(AccessControlTest, ACertificatesNameHasOneToken) {
  ASSERT_TRUE(issue_for_certificate(kDefaultTenant, "dns:gpu2.example").ok());
  EXPECT_EQ(issue_for_certificate(create("team")->id, "dns:gpu2.example").error().code,
            ErrorCode::kAlreadyExists);
  for (const char* name : {"dns:GPU3.example", "gpu3.example"}) {
    EXPECT_EQ(issue_for_certificate(kDefaultTenant, name).error().code,
              ErrorCode::kInvalidArgument);
  }
}

TEST_F(AccessControlTest, TokensThatMakeNoSenseAreRefused) {
  for (const auto& refused :
       {issue(kDefaultTenant, Scopes()), issue(kDefaultTenant, {Scope::kRead}, Duration(0)),
        issue(kDefaultTenant, {Scope::kRead}, limits::kMostTokenLife + seconds(1)),
        issue(kDefaultTenant, {Scope::kRead}, std::nullopt, ""),
        issue(kDefaultTenant, {Scope::kRead}, std::nullopt, "a\nb")}) {
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(issue(TenantId(99)).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(control_->list_tokens(kDefaultTenant).empty());
}

TEST_F(AccessControlTest, TheObserverLearnsOfEveryTenant) {
  ASSERT_EQ(changed_.size(), 1u);
  EXPECT_EQ(changed_.front().id, kDefaultTenant);
  Tenant team = create("team", 2).value();
  EXPECT_EQ(changed_.back(), team);
  team.quotas.functions = 3;
  ASSERT_TRUE(loop_.await<Tenant>([&](auto done) { control_->update_tenant(team, done); }).ok());
  EXPECT_EQ(changed_.back(), team);
  EXPECT_EQ(control_->find_tenant("team").value(), team);
  ASSERT_TRUE(loop_.await<Tenant>([&](auto done) { control_->remove_tenant("team", done); }).ok());
  EXPECT_EQ(removed_, std::vector<TenantId>{team.id});
  EXPECT_EQ(control_->tenant_name(team.id), "");
}

TEST_F(AccessControlTest, ATenantsTokensGoWithIt) {
  const Tenant team = create("team").value();
  const IssuedToken issued = issue(team.id).value();
  ASSERT_TRUE(loop_.await<Tenant>([&](auto done) { control_->remove_tenant("team", done); }).ok());
  EXPECT_FALSE(control_->authenticate(issued.secret).ok());
  EXPECT_NE(create("team").value().id, team.id);
}

TEST_F(AccessControlTest, TheDefaultTenantStays) {
  const auto removed =
      loop_.await<Tenant>([&](auto done) { control_->remove_tenant("default", done); });
  EXPECT_EQ(removed.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(control_->find_tenant("default").ok());
}

TEST_F(AccessControlTest, TenantsAreListedInPages) {
  for (const char* name : {"c", "a", "b"}) ASSERT_TRUE(create(name).ok());
  const auto page = control_->list_tenants("a", 2);
  ASSERT_EQ(page.size(), 2u);
  EXPECT_EQ(page[0].name, "b");
  EXPECT_EQ(page[1].name, "c");
  EXPECT_EQ(control_->list_tenants("", 10).size(), 4u);
}

TEST_F(AccessControlTest, ATenantAboveItsRateIsRefusedAndOthersAreNot) {
  Tenant team = create("team").value();
  team.quotas.requests_per_second = 2;
  ASSERT_TRUE(loop_.await<Tenant>([&](auto done) { control_->update_tenant(team, done); }).ok());
  EXPECT_FALSE(control_->admit_request(team.id).refusal);
  EXPECT_FALSE(control_->admit_request(team.id).refusal);
  const auto refused = control_->admit_request(team.id);
  ASSERT_TRUE(refused.refusal.has_value());
  EXPECT_EQ(refused.refusal->code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(refused.retry_after, milliseconds(500));
  EXPECT_FALSE(control_->admit_request(kDefaultTenant).refusal);
  clock_.advance(milliseconds(500));
  EXPECT_FALSE(control_->admit_request(team.id).refusal);
}

// ---- With the other nodes of a cluster

// What nodes agree on, and whether it can be reached.
class FakeSharedTokens final : public SharedTokens {
 public:
  void put_token(const catalog::TokenRecord& record,
                 std::function<void(Result<void>)> done) override {
    if (is_away) return done(Error{ErrorCode::kUnavailable, "away"});
    tokens.push_back({.tenant = tenant_of(record.token.tenant),
                      .token = record.token,
                      .secret_sha256 = record.secret_sha256});
    done({});
  }
  void remove_token(const std::string& id, std::function<void(Result<void>)> done) override {
    if (is_away) return done(Error{ErrorCode::kUnavailable, "away"});
    std::erase_if(tokens, [&](const auto& each) { return each.token.id == id; });
    done({});
  }

  std::function<std::string(TenantId)> tenant_of;
  std::vector<catalog::SharedToken> tokens;
  bool is_away = false;
};

// Two nodes with keys of their own and one that both have.
class SharedTokensTest : public AccessControlTest {
 protected:
  SharedTokensTest() {
    other_catalog_ = std::move(*catalog::Catalog::open(folder_ / "other.db", {}, loop_.post()));
    other_ = std::make_unique<AccessControl>(*other_catalog_, clock_, std::string(32, 'o'),
                                             *other_catalog_->load_access(), TenantObserver{});
    shared_.tenant_of = [this](TenantId tenant) { return control_->tenant_name(tenant); };
    for (AccessControl* each : {control_.get(), other_.get()}) {
      each->share_tokens(&shared_, std::string(32, 's'));
    }
  }
  Result<Tenant> create_at_other(const std::string& name) {
    Tenant tenant;
    tenant.name = name;
    return loop_.await<Tenant>([&](auto done) { other_->create_tenant(tenant, done); });
  }

  FakeSharedTokens shared_;
  std::unique_ptr<catalog::Catalog> other_catalog_;
  std::unique_ptr<AccessControl> other_;
};

TEST_F(SharedTokensTest, ATokenOfOneNodeIsOneOfTheOtherWithTheSameSigningSecret) {
  ASSERT_TRUE(create("first").ok());  // so that numbers of tenants differ
  const Tenant team = create("team").value();
  const IssuedToken issued = issue(team.id).value();
  // Its tenant comes later.
  EXPECT_EQ(other_->take_shared_tokens(shared_.tokens), 1U);
  EXPECT_FALSE(other_->authenticate(issued.secret).ok());
  const Tenant there = create_at_other("team").value();
  EXPECT_EQ(other_->take_shared_tokens(shared_.tokens), 0U);
  EXPECT_EQ(other_->authenticate(issued.secret)->tenant, there.id);
  EXPECT_EQ(other_->find_signer(issued.token.id)->signing_secret, issued.signing_secret);
  EXPECT_EQ(other_->list_tokens(there.id).size(), 1U);
}

TEST_F(SharedTokensTest, ATokenThatAnotherNodeRevokedIsRefused) {
  const IssuedToken issued = issue(kDefaultTenant).value();
  other_->take_shared_tokens(shared_.tokens);
  ASSERT_TRUE(other_->authenticate(issued.secret).ok());
  ASSERT_TRUE(revoke(kDefaultTenant, issued.token.id).ok());
  other_->take_shared_tokens(shared_.tokens);
  EXPECT_FALSE(other_->authenticate(issued.secret).ok());
  EXPECT_TRUE(other_->list_tokens(kDefaultTenant).empty());
}

TEST_F(SharedTokensTest, OneThatIsRevokedWhileNothingIsReachedIsRefusedHereAndLaterByAll) {
  const IssuedToken issued = issue(kDefaultTenant).value();
  shared_.is_away = true;
  EXPECT_EQ(issue(kDefaultTenant).error().code, ErrorCode::kUnavailable);
  const auto revoked = revoke(kDefaultTenant, issued.token.id);
  ASSERT_FALSE(revoked.ok());
  EXPECT_EQ(revoked.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(control_->authenticate(issued.secret).ok());
  // What was read before does not bring it back.
  control_->take_shared_tokens(shared_.tokens);
  EXPECT_FALSE(control_->authenticate(issued.secret).ok());
  control_->retry_revocations();
  shared_.is_away = false;
  EXPECT_EQ(shared_.tokens.size(), 1U);
  control_->retry_revocations();
  EXPECT_TRUE(shared_.tokens.empty());
  EXPECT_EQ(revoke(kDefaultTenant, issued.token.id).error().code, ErrorCode::kNotFound);
}

TEST_F(SharedTokensTest, NodesTellEachOtherWhatTheyRevokedAndEachTriesToAgree) {
  const IssuedToken issued = issue(kDefaultTenant).value();
  other_->take_shared_tokens(shared_.tokens);
  shared_.is_away = true;
  ASSERT_FALSE(revoke(kDefaultTenant, issued.token.id).ok());
  EXPECT_EQ(control_->unagreed_revocations(), std::vector<std::string>{issued.token.id});
  other_->revoked_elsewhere({issued.token.id, "unknown"});
  EXPECT_FALSE(other_->authenticate(issued.secret).ok());
  EXPECT_EQ(other_->unagreed_revocations().size(), 1U);
  // The first that reaches the catalog is enough.
  shared_.is_away = false;
  other_->retry_revocations();
  EXPECT_TRUE(shared_.tokens.empty());
  EXPECT_TRUE(other_->unagreed_revocations().empty());
  other_->revoked_elsewhere({issued.token.id});
  EXPECT_TRUE(other_->unagreed_revocations().empty());
}

TEST_F(SharedTokensTest, ATokenOfThisNodeOnlyIsNotRevokedByAnother) {
  control_->share_tokens(nullptr, "");
  const IssuedToken own = issue(kDefaultTenant).value();
  control_->share_tokens(&shared_, std::string(32, 's'));
  control_->revoked_elsewhere({own.token.id});
  EXPECT_TRUE(control_->authenticate(own.secret).ok());
}

TEST_F(SharedTokensTest, OnesThatANodeHadBeforeStayItsOwn) {
  control_->share_tokens(nullptr, "");
  const IssuedToken own = issue(kDefaultTenant).value();
  control_->share_tokens(&shared_, std::string(32, 's'));
  control_->take_shared_tokens({});
  EXPECT_TRUE(control_->authenticate(own.secret).ok());
  EXPECT_EQ(control_->find_signer(own.token.id)->signing_secret, own.signing_secret);
  EXPECT_TRUE(revoke(kDefaultTenant, own.token.id).ok());
}

TEST_F(SharedTokensTest, ACertificatesNameIsThatOfTheTokenThatWasHereBefore) {
  control_->share_tokens(nullptr, "");
  const IssuedToken own = issue_for_certificate(kDefaultTenant, "email:alice@team.example").value();
  control_->share_tokens(&shared_, std::string(32, 's'));
  catalog::SharedToken same{.tenant = "default", .token = own.token, .secret_sha256 = {}};
  same.secret_sha256 = std::string(32, 'x');
  same.token.id = "LAMBOTHER";
  same.token.scopes = Scopes::all();
  control_->take_shared_tokens({same});
  const auto principal = control_->authenticate_certificate({"email:alice@team.example"});
  EXPECT_EQ((*principal)->token, own.token.id);
}

}  // namespace
}  // namespace lambent::tenants
