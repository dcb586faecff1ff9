#include "decide/access/token_table.h"

#include <gtest/gtest.h>

namespace lambent::access {
namespace {

const std::string kId = "LAMBAAAABBBBCCCCDDDD";
constexpr TenantId kTeam{7};

class TokenTableTest : public testing::Test {
 protected:
  void add(const std::string& id, const std::string& secret,
           std::optional<Duration> expires_at = std::nullopt, TenantId tenant = kTeam) {
    table_.add({.id = id,
                .tenant = tenant,
                .name = "ci",
                .scopes = {Scope::kInvoke},
                .created_at = seconds(++created_),
                .expires_at = expires_at,
                .certificate = {}},
               crypto::sha256(secret));
  }
  void add_for_certificate(const std::string& id, const std::string& name,
                           std::optional<Duration> expires_at = std::nullopt) {
    table_.add({.id = id,
                .tenant = kTeam,
                .name = "alice",
                .scopes = {Scope::kInvoke},
                .created_at = seconds(++created_),
                .expires_at = expires_at,
                .certificate = name},
               crypto::sha256("secret"));
  }
  std::string refusal_of(const std::string& text, Duration now = seconds(100)) {
    const auto principal = table_.authenticate(text, now);
    EXPECT_FALSE(principal.ok()) << text;
    if (principal.ok()) return "";
    EXPECT_EQ(principal.error().code, ErrorCode::kUnauthenticated);
    return principal.error().message;
  }

  TokenTable table_;
  int created_ = 0;
};

TEST_F(TokenTableTest, ARightSecretIsItsPrincipal) {
  add(kId, "s_ecret");
  EXPECT_EQ(table_.authenticate(bearer_token(kId, "s_ecret"), seconds(100)).value(),
            (Principal{.tenant = kTeam, .scopes = {Scope::kInvoke}, .token = kId}));
}

TEST_F(TokenTableTest, ACertificateWithTheNameOfATokenIsItsPrincipal) {
  add_for_certificate(kId, "email:alice@team.example");
  const auto principal =
      table_.principal_of_certificate({"dns:laptop", "email:alice@team.example"}, seconds(100));
  EXPECT_EQ(principal.value(),
            (Principal{.tenant = kTeam, .scopes = {Scope::kInvoke}, .token = kId}));
  EXPECT_EQ(
      table_.principal_of_certificate({"dns:laptop", "uri:email:alice@team.example"}, seconds(100))
          .value(),
      std::nullopt);
}

TEST_F(TokenTableTest, ATokenForACertificateHasNoSecret) {
  add_for_certificate(kId, "dns:gpu2.example");
  for (const char* secret : {"secret", ""}) {
    EXPECT_EQ(refusal_of(bearer_token(kId, secret)), "the token is not valid");
  }
  EXPECT_EQ(table_.principal_of(kId, seconds(100)).error().message, "the token is not valid");
}

TEST_F(TokenTableTest, ACertificateWithTheNamesOfTwoTokensIsRefused) {
  add_for_certificate("A", "dns:a");
  add_for_certificate("B", "dns:b");
  EXPECT_TRUE(table_.principal_of_certificate({"dns:a", "dns:a"}, seconds(100)).ok());
  const auto principal = table_.principal_of_certificate({"dns:a", "dns:b"}, seconds(100));
  ASSERT_FALSE(principal.ok());
  EXPECT_EQ(principal.error().code, ErrorCode::kUnauthenticated);
  EXPECT_NE(principal.error().message.find("dns:a and dns:b"), std::string::npos);
}

TEST_F(TokenTableTest, ACertificateIsWorthNothingOnceItsTokenHasExpiredOrGone) {
  add_for_certificate("A", "dns:a", seconds(50));
  EXPECT_TRUE(table_.principal_of_certificate({"dns:a"}, seconds(49)).value());
  EXPECT_EQ(table_.principal_of_certificate({"dns:a"}, seconds(50)).error().code,
            ErrorCode::kUnauthenticated);
  table_.remove("A");
  EXPECT_EQ(table_.principal_of_certificate({"dns:a"}, seconds(50)).value(), std::nullopt);
  EXPECT_FALSE(table_.has_certificate("dns:a"));
  add_for_certificate("B", "dns:a");
  table_.remove_of(kTeam);
  EXPECT_FALSE(table_.has_certificate("dns:a"));
}

TEST_F(TokenTableTest, EveryForgedTokenIsRefusedWithTheSameWords) {
  add(kId, "secret");
  for (const std::string& text :
       {bearer_token(kId, "secre"), bearer_token(kId, "secret2"), bearer_token(kId, ""),
        bearer_token("LAMBAAAABBBBCCCCDDDE", "secret"), bearer_token("", "secret"),
        std::string("secret"), std::string(), std::string("lambent_"), "lambent_" + kId,
        bearer_token(kId, "secret").substr(1), bearer_token(kId, "secret") + " ",
        // The digest is no secret.
        bearer_token(kId, crypto::to_hex(crypto::sha256("secret"))), std::string(100'000, '_')}) {
    EXPECT_EQ(refusal_of(text), "the token is not valid");
  }
}

TEST_F(TokenTableTest, ATokenIsGoodUntilItExpires) {
  add(kId, "secret", seconds(50));
  EXPECT_TRUE(table_.authenticate(bearer_token(kId, "secret"), seconds(50) - nanoseconds(1)).ok());
  EXPECT_NE(refusal_of(bearer_token(kId, "secret"), seconds(50)).find("expired"),
            std::string::npos);
  // Who does not have the secret does not learn that.
  EXPECT_EQ(refusal_of(bearer_token(kId, "wrong"), seconds(50)), "the token is not valid");
  EXPECT_FALSE(table_.principal_of(kId, seconds(50)).ok());
  EXPECT_TRUE(table_.principal_of(kId, seconds(49)).ok());
}

TEST_F(TokenTableTest, ARemovedTokenIsUnknown) {
  add(kId, "secret");
  table_.remove(kId);
  EXPECT_EQ(refusal_of(bearer_token(kId, "secret")), "the token is not valid");
  EXPECT_FALSE(table_.principal_of(kId, seconds(1)).ok());
}

TEST_F(TokenTableTest, TokensAreFoundByTheirTenantAsTheyComeAndGo) {
  add("A", "s");
  add("B", "s", std::nullopt, TenantId{8});
  add("C", "s");
  EXPECT_EQ(table_.count(kTeam), 2u);
  EXPECT_EQ(table_.tenants(), 2u);
  add("C", "s", std::nullopt, TenantId{8});  // another's from now on
  EXPECT_EQ(table_.count(kTeam), 1u);
  EXPECT_EQ(table_.list(TenantId{8}).size(), 2u);
  table_.remove("A");
  table_.remove("A");
  EXPECT_EQ(table_.count(kTeam), 0u);
  EXPECT_EQ(table_.tenants(), 1u);
  table_.remove_of(TenantId{8});
  EXPECT_EQ(table_.tenants(), 0u);
}

TEST_F(TokenTableTest, ATenantsTokensAreListedInOrderAndGoTogether) {
  add("B", "1");
  add("A", "2");
  add("C", "3", std::nullopt, TenantId(8));
  ASSERT_EQ(table_.list(kTeam).size(), 2u);
  EXPECT_EQ(table_.list(kTeam)[0].id, "B");
  EXPECT_EQ(table_.list(kTeam)[1].id, "A");
  EXPECT_EQ(table_.count(kTeam), 2u);
  table_.remove_of(kTeam);
  EXPECT_EQ(table_.count(kTeam), 0u);
  EXPECT_EQ(table_.find("C")->tenant, TenantId(8));
}

}  // namespace
}  // namespace lambent::access
