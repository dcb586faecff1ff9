// The verbs about tenants and tokens: what is asked, what is shown, and that no secret is shown
// where it does not belong.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "edge/cli/api_error.h"
#include "edge/cli/credentials.h"
#include "edge/cli/secrets.h"
#include "edge/cli/tenants.h"
#include "edge/cli/testing/verbs_testing.h"
#include "edge/cli/tokens.h"

namespace lambent::cli {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

constexpr const char* kRed = R"({"name":"red","weight":2,"created_at":1795839720,"quotas":{
    "functions":12,"concurrency":null,"gpu_memory_bytes":8589934592,"gpu_seconds_per_hour":90,
    "host_memory_bytes":null,"object_bytes":null,"disk_bytes":null,"requests_per_second":2.5}})";
constexpr const char* kIssued =
    R"({"id":"LAMBA","tenant":"red","name":"ci","scopes":["deploy","read"],
    "created_at":1795839720,"expires_at":1795839780,"secret":"lambent_LAMBA_s3cret",
    "aws_access_key_id":"LAMBA","aws_secret_access_key":"s1gning"})";

TEST_F(Verbs, TenantsAreListedPageByPageWithTheirQuotas) {
  transport.answer(response(200, std::string(R"({"tenants":[)") + kRed + R"(],"next":"red"})"));
  transport.answer(response(
      200, R"({"tenants":[{"name":"white","weight":1,"created_at":0,"quotas":{}}],"next":null})"));
  EXPECT_EQ(run_tenants_ls(transport, console), 0);
  ASSERT_EQ(transport.requests.size(), 2u);
  EXPECT_EQ(transport.requests[1].target, "/v1/tenants?after=red");
  EXPECT_EQ(out.str(),
            "NAME   WEIGHT  FUNCTIONS  CONCURRENCY  GPU MEMORY  GPU TIME/H  HOST MEMORY  OBJECTS  "
            "DISK  REQUESTS/S\n"
            "red         2         12            -       8 GiB     90.00 s            -        -  "
            "   -         2.5\n"
            "white       1          -            -           -           -            -        -  "
            "   -           -\n");
}

TEST_F(Verbs, APageThatDoesNotGoOnIsRefused) {
  for (int i = 0; i < 2; ++i) {
    transport.answer(response(200, R"({"tenants":[],"next":"red"})"));
  }
  EXPECT_NE(run_tenants_ls(transport, console), 0);
  EXPECT_THAT(err.str(), HasSubstr("is that a Lambent worker"));
}

TEST_F(Verbs, CreatingATenantSendsItsQuotasAndShowsWhatBecameOfIt) {
  transport.answer(response(201, kRed));
  EXPECT_EQ(run_tenants_create(
                transport, console, "red",
                {.weight = 2, .quotas = {{"functions", "12"}, {"gpu_memory_bytes", "8G"}}}),
            0);
  const http::Request& request = transport.requests.at(0);
  EXPECT_EQ(request.method + " " + request.target, "POST /v1/tenants");
  EXPECT_EQ(Json::parse(request.body),
            Json::parse(R"({"weight":2.0,"quotas":{"functions":12,"gpu_memory_bytes":8589934592},
                            "name":"red"})"));
  EXPECT_THAT(out.str(), HasSubstr("gpu-memory           8 GiB\n"));
  EXPECT_THAT(out.str(), HasSubstr("disk                 no quota\n"));
}

TEST_F(Verbs, SettingNothingIsBadUsageAndAsksNobody) {
  EXPECT_EQ(run_tenants_set(transport, console, "red", {}),
            exit_code_of(ErrorCode::kInvalidArgument));
  EXPECT_TRUE(transport.requests.empty());
  transport.answer(response(200, kRed));
  EXPECT_EQ(
      run_tenants_set(transport, console, "red", {.weight = {}, .quotas = {{"functions", "none"}}}),
      0);
  EXPECT_EQ(transport.requests.at(0).method + " " + transport.requests.at(0).target,
            "PATCH /v1/tenants/red");
  EXPECT_EQ(transport.requests.at(0).body, R"({"quotas":{"functions":null}})");
}

TEST_F(Verbs, TokensOfWhoeverAsksAreSoughtByWhoami) {
  transport.answer(response(200, R"({"tenant":"red","scopes":["admin"],"token":"LAMBA"})"));
  transport.answer(response(200, R"({"tokens":[
      {"id":"LAMBA","tenant":"red","name":"ci","scopes":["deploy","read"],"created_at":1795839720,
       "expires_at":null}]})"));
  EXPECT_EQ(run_tokens_ls(transport, console, ""), 0);
  EXPECT_EQ(transport.requests.at(1).target, "/v1/tenants/red/tokens");
  EXPECT_EQ(out.str(),
            "ID     NAME  SCOPES       CREATED               EXPIRES  CERTIFICATE\n"
            "LAMBA  ci    deploy,read  2026-11-28 04:22 UTC  never    -\n");
}

TEST_F(Verbs, ANewTokensSecretsAreLinesForAShellOnStandardOutputOnly) {
  transport.answer(response(201, kIssued));
  EXPECT_EQ(run_tokens_create(
                transport, {.host = "127.0.0.1", .port = 8980, .socket_path = ""}, console,
                {.tenant = "red", .name = "ci", .scopes = {"deploy", "read"}, .expires = "1m"}),
            0);
  EXPECT_EQ(Json::parse(transport.requests.at(0).body),
            Json::parse(R"({"name":"ci","scopes":["deploy","read"],"lifetime_seconds":60.0})"));
  EXPECT_EQ(out.str(),
            "export LAMBENT_TOKEN=lambent_LAMBA_s3cret\n"
            "export AWS_ACCESS_KEY_ID=LAMBA\n"
            "export AWS_SECRET_ACCESS_KEY=s1gning\n"
            "export AWS_ENDPOINT_URL_LAMBDA=http://127.0.0.1:8980\n"
            "export AWS_DEFAULT_REGION=us-east-1\n");
  EXPECT_THAT(err.str(), HasSubstr("token LAMBA of tenant red, scopes deploy,read, expires"));
  EXPECT_THAT(err.str(), Not(HasSubstr("s3cret")));
}

TEST_F(Verbs, OverAUnixSocketTheAddressForAwsClientsIsLeftToTheReader) {
  transport.answer(response(201, kIssued));
  EXPECT_EQ(run_tokens_create(transport, {.host = "", .socket_path = "/run/x.sock"}, console,
                              {.tenant = "red", .name = "ci", .scopes = {"read"}, .expires = {}}),
            0);
  EXPECT_THAT(out.str(), HasSubstr("\n# export AWS_ENDPOINT_URL_LAMBDA="));
}

TEST_F(Verbs, ATokenIsNotRevokedByItsSecretWhichNothingShows) {
  EXPECT_EQ(run_tokens_revoke(transport, console, "red", {"lambent_LAMBA_s3cret"}),
            exit_code_of(ErrorCode::kInvalidArgument));
  EXPECT_TRUE(transport.requests.empty());
  EXPECT_THAT(err.str(), Not(HasSubstr("s3cret")));
}

TEST_F(Verbs, RevokingGoesOnAfterAFailure) {
  transport.answer(response(404, R"({"error":{"code":"NOT_FOUND","message":"no token LAMBX"}})"));
  transport.answer(response(200, R"({"id":"LAMBA"})"));
  EXPECT_EQ(run_tokens_revoke(transport, console, "red", {"LAMBX", "LAMBA"}),
            exit_code_of(ErrorCode::kNotFound));
  EXPECT_EQ(out.str(), "revoked LAMBA\n");
}

TEST_F(Verbs, WhoamiTellsWhetherATokenWasNeeded) {
  transport.answer(response(200, R"({"tenant":"red","scopes":["read"],"token":"LAMBA"})"));
  transport.answer(response(200, R"({"tenant":"default","scopes":["admin"],"token":null})"));
  EXPECT_EQ(run_whoami(transport, console), 0);
  EXPECT_EQ(run_whoami(transport, console), 0);
  EXPECT_THAT(out.str(), HasSubstr("tenant  red\nscopes  read\ntoken   LAMBA\n"));
  EXPECT_THAT(out.str(), HasSubstr("token   none was needed\n"));
}

TEST(Credentials, AreHeadersOfTheRequest) {
  http::Request request{.method = "GET", .target = "/"};
  request.headers.add("X-Own", "1");
  const http::Headers headers = headers_of(request, {.token = "lambent_t", .tenant = "red"});
  EXPECT_EQ(headers.get("authorization"), "Bearer lambent_t");
  EXPECT_EQ(headers.get("x-lambent-tenant"), "red");
  EXPECT_EQ(headers.get("x-own"), "1");
  EXPECT_FALSE(headers_of(request, {}).contains("authorization"));
}

TEST(Credentials, OfATextAreOneWordAndNoErrorShowsIt) {
  EXPECT_EQ(*token_in("  lambent_a_b\n", "the file"), "lambent_a_b");
  for (const std::string& bad :
       {std::string(), std::string(" \n"), std::string("s3cret two"),
        std::string("s3cret\r\nX-Lambent-Tenant: red"), std::string(10'000, 'x')}) {
    const auto token = token_in(bad, "the file f");
    ASSERT_FALSE(token.ok());
    EXPECT_THAT(token.error().message, HasSubstr("the file f"));
    EXPECT_THAT(token.error().message, Not(HasSubstr("s3cret")));
  }
}

TEST(ApiErrors, OfMissingCredentialsSayHowThisCommandTakesThem) {
  const Error error = error_of(response(403, R"({"Message":"the token is not valid"})",
                                        {{"x-amzn-ErrorType", "UnrecognizedClientException"},
                                         {"x-lambent-code", "UNAUTHENTICATED"}}));
  EXPECT_EQ(error.code, ErrorCode::kUnauthenticated);
  EXPECT_THAT(error.message, HasSubstr("the token is not valid"));
  EXPECT_THAT(error.message, HasSubstr("--token-file"));
}

TEST_F(Verbs, ASecretGoesFromStandardInputOrAFileAndIsNotShown) {
  std::istringstream in("hunter2\n");
  transport.answer(response(200, R"({"name":"pw","changed_at":1})"));
  EXPECT_EQ(run_secrets_set(transport, console, in, {.name = "pw", .file = ""}), 0);
  EXPECT_EQ(transport.requests.at(0).method, "PUT");
  EXPECT_EQ(transport.requests.at(0).target, "/v1/secrets/pw");
  EXPECT_EQ(transport.requests.at(0).body, "hunter2");
  EXPECT_THAT(out.str() + err.str(), Not(HasSubstr("hunter2")));
}

TEST_F(Verbs, ASecretWithoutAValueIsNotSent) {
  std::istringstream in("\n");
  EXPECT_NE(run_secrets_set(transport, console, in, {.name = "pw", .file = ""}), 0);
  EXPECT_NE(run_secrets_set(transport, console, in, {.name = "pw", .file = "/no/such/file"}), 0);
  EXPECT_TRUE(transport.requests.empty());
}

TEST_F(Verbs, SecretsAreListedAndRemovedByName) {
  transport.answer(response(200, R"({"secrets":[{"name":"pw","changed_at":1795839720}]})"));
  EXPECT_EQ(run_secrets_ls(transport, console), 0);
  EXPECT_THAT(out.str(), HasSubstr("pw"));
  transport.answer(response(404, R"({"error":{"code":"NOT_FOUND","message":"no"}})"));
  transport.answer(response(200, R"({"name":"b","changed_at":1})"));
  EXPECT_EQ(run_secrets_rm(transport, console, {"a", "b"}), exit_code_of(ErrorCode::kNotFound));
  EXPECT_EQ(transport.requests.back().target, "/v1/secrets/b");
}

}  // namespace
}  // namespace lambent::cli
