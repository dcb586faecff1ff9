// Whose request it is, and whether it passes: the router before frontends that answer anything.
#include "edge/frontend/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "edge/frontend/testing/fake_access.h"
#include "edge/frontend/testing/fake_secrets.h"
#include "edge/frontend/testing/fake_volumes.h"
#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;
using HeaderList = std::vector<std::pair<std::string, std::string>>;

constexpr TenantId kTeam{7};
constexpr std::string_view kSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

class RouterTest : public testing::Test {
 protected:
  RouterTest() {
    access_.add_tenant(kTeam, "team");
    bearer("reader", {Scope::kRead});
    bearer("invoker", {Scope::kInvoke});
    bearer("deployer", {Scope::kDeploy});
    bearer("admin", {Scope::kAdmin}, kDefaultTenant);
    service_.functions[{kTeam, "f"}] = named({kTeam, "f"});
    service_.functions[{kDefaultTenant, "g"}] = named({kDefaultTenant, "g"});
  }

  static FunctionSpec named(FunctionName name) {
    FunctionSpec spec;
    spec.name = std::move(name);
    return spec;
  }
  void bearer(const std::string& token, Scopes scopes, TenantId tenant = kTeam) {
    access_.bearers[token] = {.tenant = tenant, .scopes = scopes, .token = "LAMB-" + token};
  }
  void use(AuthMode mode) {
    router_ = std::make_unique<Router>(
        Router::Services{service_, versions_, access_, secrets_, objects_, relays_, volumes_},
        loop_, random_,
        RouterOptions{.native = {.version = "1",
                                 .metrics =
                                     [](auto) {
                                       return std::string(
                                           "a{tenant=\"1\"} 1\na{tenant=\"7\"} 2\nb 3\n");
                                     },
                                 .ready = [] { return true; }},
                      .auth = {.mode = mode, .own_user = 1000},
                      .offload =
                          [this](auto work, auto completion) {
                            if (!takes_work_) return false;
                            work();
                            completion();
                            return true;
                          },
                      .audit =
                          [this](AuditRecord record, const AuditWritten& written) {
                            audited_.push_back(std::move(record));
                            if (!holds_audit_) written(audit_result_);
                          },
                      .usage =
                          [](TenantId tenant) {
                            TenantUsage usage;
                            usage.functions = tenant.value;
                            return usage;
                          },
                      .function_domain = "lambent.localhost"},
        RequestGuard({.function_domain = "lambent.localhost"}));
  }

  http::Response send(http::Request request) {
    auto seen = std::make_shared<Exchanged>();
    router_->handle(std::move(request), responder_to(seen));
    return seen->response.value_or(http::Response{.status = 0});
  }
  http::Response call(const std::string& method, const std::string& target,
                      const std::string& token = "", const std::string& body = "",
                      const HeaderList& headers = {}) {
    http::Request request = request_of(method, target, body, headers);
    if (!token.empty()) request.headers.add("Authorization", "Bearer " + token);
    return send(std::move(request));
  }
  http::Response over_unix(uint32_t user, const std::string& target) {
    http::Request request = request_of("GET", target, "", {});
    request.peer = {.transport = http::Transport::kUnix, .user = user};
    return send(std::move(request));
  }
  static std::string code_of(const http::Response& response) {
    return json::parse(response.body)["error"]["code"];
  }

  FakeClock clock_;
  loop::EventLoop loop_{clock_};
  FakeService service_;
  FakeVersions versions_{service_};
  FakeAccess access_;
  FakeSecrets secrets_;
  FakeVolumes volumes_;
  SeededRandom random_{1};
  NullLogSink log_;
  objects::ObjectStore store_{loop_, log_, [](auto, auto) { return false; }, {}};
  ObjectsFrontend objects_{store_, [](auto, auto) { return false; }, loop_, random_};
  FakeRelays relays_;
  std::vector<AuditRecord> audited_;
  bool holds_audit_ = false;
  Result<void> audit_result_;
  bool takes_work_ = true;
  std::unique_ptr<Router> router_;
};

const std::string kInvokeF = "/2015-03-31/functions/f/invocations";

TEST_F(RouterTest, WithoutTokensEveryoneIsTheDefaultTenant) {
  use(AuthMode::kNone);
  const json me = json::parse(call("GET", "/v1/whoami").body);
  EXPECT_EQ(me["tenant"], "default");
  EXPECT_TRUE(me["token"].is_null());
  EXPECT_EQ(me["scopes"], json::parse(R"(["admin","deploy","invoke","read"])"));
  EXPECT_EQ(call("POST", "/2015-03-31/functions/g/invocations", "", "{}").status, 200);
  EXPECT_EQ(call("POST", kInvokeF, "", "{}").status, 404);
}

TEST_F(RouterTest, WithoutTokensOneThatIsShownIsCheckedAllTheSame) {
  use(AuthMode::kNone);
  EXPECT_EQ(call("GET", "/v1/functions", "forged").status, 401);
  EXPECT_EQ(call("POST", kInvokeF, "invoker", "{}").status, 200);
  EXPECT_EQ(call("POST", kInvokeF, "reader", "{}").status, 403);
}

TEST_F(RouterTest, WithTokensWhoHasNoneIsToldHowToGetOne) {
  use(AuthMode::kTokens);
  const http::Response refused = call("GET", "/v1/functions");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(code_of(refused), "UNAUTHENTICATED");
  EXPECT_EQ(refused.headers.get("WWW-Authenticate"), "Bearer realm=\"lambent\"");
  EXPECT_NE(refused.body.find("lambent tokens create"), std::string::npos);
  const http::Response aws = call("POST", kInvokeF);
  EXPECT_EQ(aws.status, 403);
  EXPECT_EQ(aws.headers.get("x-amzn-ErrorType"), "MissingAuthenticationTokenException");
  EXPECT_EQ(call("POST", kInvokeF, "forged").headers.get("x-amzn-ErrorType"),
            "UnrecognizedClientException");
}

TEST_F(RouterTest, ProbesNeedNoToken) {
  use(AuthMode::kTokens);
  for (const char* path : {"/livez", "/healthz", "/readyz"}) {
    EXPECT_EQ(call("GET", path).status, 200) << path;
  }
  EXPECT_EQ(call("GET", "/metrics").status, 401);
}

TEST_F(RouterTest, RootAndTheWorkersOwnUserAreTrustedOverTheUnixSocket) {
  use(AuthMode::kTokens);
  EXPECT_EQ(over_unix(0, "/v1/tenants").status, 200);
  EXPECT_EQ(over_unix(1000, "/v1/tenants").status, 200);
  EXPECT_EQ(over_unix(1001, "/v1/tenants").status, 401);
  // A user's number counts nothing over TCP, where no socket tells it.
  http::Request request = request_of("GET", "/v1/tenants", "", {});
  request.peer.user = 0;
  EXPECT_EQ(send(std::move(request)).status, 401);
}

TEST_F(RouterTest, AClientCertificateIsThePrincipalOfItsToken) {
  access_.certificates["email:alice@team.example"] = {
      .tenant = kTeam, .scopes = {Scope::kRead}, .token = "LAMB-alice"};
  const auto ask = [&](http::PeerCertificate certificate, const HeaderList& headers = {}) {
    http::Request request = request_of("GET", "/v1/whoami", "", headers);
    request.peer.certificate = std::move(certificate);
    return send(std::move(request));
  };
  for (const AuthMode mode : {AuthMode::kTokens, AuthMode::kNone}) {
    use(mode);
    const json me = json::parse(ask({.emails = {"alice@team.example"}}).body);
    EXPECT_EQ(me["tenant"], "team");
    EXPECT_EQ(me["token"], "LAMB-alice");
    // What a client says counts more than what its connection shows, and is checked.
    EXPECT_EQ(
        json::parse(ask({.emails = {"alice@team.example"}}, {{"Authorization", "Bearer invoker"}})
                        .body)["token"],
        "LAMB-invoker");
    EXPECT_EQ(ask({.emails = {"alice@team.example"}}, {{"Authorization", "Bearer forged"}}).status,
              401);
  }
  use(AuthMode::kTokens);
  // A common name is no alternative name, and a name of another kind is another name.
  EXPECT_EQ(ask({.common_name = "alice@team.example", .dns_names = {"alice@team.example"}}).status,
            401);
}

TEST_F(RouterTest, OtherSchemesAndSeveralHeadersAreRefused) {
  use(AuthMode::kTokens);
  EXPECT_EQ(call("GET", "/v1/functions", "", "", {{"Authorization", "Basic eDp5"}}).status, 401);
  EXPECT_EQ(call("GET", "/v1/functions", "", "",
                 {{"Authorization", "Bearer reader"}, {"Authorization", "Bearer admin"}})
                .status,
            401);
  EXPECT_EQ(call("GET", "/v1/functions", "", "", {{"authorization", "bearer reader"}}).status, 200);
  EXPECT_EQ(call("GET", "/v1/functions", "", "", {{"Authorization", "Bearer"}}).status, 401);
}

struct Allowed {
  const char* method;
  const char* target;
  std::string tokens;  // that pass, in order
};

TEST_F(RouterTest, EachScopeOpensItsRoutesOnly) {
  use(AuthMode::kTokens);
  const Allowed cases[] = {{"POST", "/2015-03-31/functions/f/invocations", "invoker,admin"},
                           {"GET", "/2015-03-31/functions", "reader,admin"},
                           {"GET", "/2015-03-31/functions/f", "reader,invoker,deployer,admin"},
                           {"DELETE", "/2015-03-31/functions/nothing", "deployer,admin"},
                           {"POST", "/2015-03-31/functions", "deployer,admin"},
                           {"PUT", "/2015-03-31/functions/f/code", "deployer,admin"},
                           {"POST", "/v1/functions/f/invocations", "invoker,admin"},
                           {"GET", "/v1/functions/f/log", "reader,admin"},
                           {"GET", "/v1/sandboxes", "reader,admin"},
                           {"GET", "/v1/objects", "reader,invoker,admin"},
                           {"DELETE", "/v1/objects/x", "invoker,admin"},
                           {"GET", "/v1/secrets", "reader,deployer,admin"},
                           {"PUT", "/v1/secrets/pw", "deployer,admin"},
                           {"GET", "/v1/secrets/pw", "admin"},
                           {"DELETE", "/v1/secrets/pw", "deployer,admin"},
                           {"GET", "/v1/volumes", "reader,deployer,admin"},
                           {"PUT", "/v1/volumes/w", "deployer,admin"},
                           {"GET", "/v1/volumes/w", "admin"},
                           {"DELETE", "/v1/volumes/w", "deployer,admin"},
                           {"GET", "/v1/volumes/w/files", "reader,deployer,admin"},
                           {"GET", "/v1/volumes/w/files/a/b", "reader,deployer,admin"},
                           {"PUT", "/v1/volumes/w/files/a/b", "deployer,admin"},
                           {"DELETE", "/v1/volumes/w/files/a", "deployer,admin"},
                           {"POST", "/v1/volumes/w/files/a", "admin"},
                           {"GET", "/v1/volumes/w/uploads/a/b", "deployer,admin"},
                           {"GET", "/metrics", "reader,admin"},
                           {"POST", "/v1/devices/0/drain", "admin"},
                           {"GET", "/v1/tenants", "admin"},
                           {"POST", "/v1/tenants", "admin"},
                           {"GET", "/v1/tenants/team/tokens", "admin"},
                           {"GET", "/v1/a-route-that-nobody-listed", "admin"}};
  for (const Allowed& each : cases) {
    std::string passed;
    for (const char* token : {"reader", "invoker", "deployer", "admin"}) {
      const http::Response response = call(each.method, each.target, token, "{}");
      EXPECT_NE(response.status, 401);
      if (response.status != 403) passed += (passed.empty() ? "" : ",") + std::string(token);
    }
    EXPECT_EQ(passed, each.tokens) << each.method << " " << each.target;
  }
}

TEST_F(RouterTest, ATenantSeesItsOwnThingsOnly) {
  use(AuthMode::kTokens);
  EXPECT_EQ(call("GET", "/2015-03-31/functions/g", "reader").status, 404);
  EXPECT_EQ(call("GET", "/2015-03-31/functions", "reader").body.find("\"g\""), std::string::npos);
  EXPECT_EQ(call("GET", "/metrics", "reader").body, "a{tenant=\"7\"} 2\n");
  EXPECT_EQ(call("GET", "/metrics", "admin").body, "a{tenant=\"1\"} 1\na{tenant=\"7\"} 2\nb 3\n");
}

TEST_F(RouterTest, ATenantLearnsWhatItMayHaveAndHas) {
  use(AuthMode::kTokens);
  access_.tenants["team"].quotas.functions = 9;
  const json me = json::parse(call("GET", "/v1/whoami", "reader").body);
  EXPECT_EQ(me["tenant"], "team");
  EXPECT_EQ(me["token"], "LAMB-reader");
  EXPECT_EQ(me["quotas"]["functions"], 9);
  EXPECT_EQ(me["usage"]["functions"], 7);
  EXPECT_EQ(json::parse(call("GET", "/v1/tenants/team", "admin").body)["usage"]["functions"], 7);
}

TEST_F(RouterTest, AnAdminMayActForAnotherTenant) {
  use(AuthMode::kTokens);
  const HeaderList for_team = {{"X-Lambent-Tenant", "team"}};
  EXPECT_EQ(call("POST", kInvokeF, "admin", "{}").status, 404);
  EXPECT_EQ(call("POST", kInvokeF, "admin", "{}", for_team).status, 200);
  EXPECT_EQ(service_.submitted.back().function.tenant, kTeam);
  EXPECT_EQ(call("POST", kInvokeF, "invoker", "{}", for_team).status, 200);
  EXPECT_EQ(call("POST", kInvokeF, "invoker", "{}", {{"X-Lambent-Tenant", "default"}}).status, 403);
  EXPECT_EQ(call("POST", kInvokeF, "admin", "{}", {{"X-Lambent-Tenant", "nobody"}}).status, 404);
}

TEST_F(RouterTest, ATenantAboveItsRateIsToldWhenToTryAgain) {
  use(AuthMode::kTokens);
  access_.refuse_rate = milliseconds(1500);
  const http::Response refused = call("POST", kInvokeF, "invoker", "{}");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.get("Retry-After"), "2");
  EXPECT_EQ(call("GET", "/v1/functions", "reader").status, 429);
  EXPECT_TRUE(service_.submitted.empty());
  EXPECT_EQ(call("GET", "/livez").status, 200);
}

TEST_F(RouterTest, ALogIsFollowedAsLongAsTheTokenIsGood) {
  use(AuthMode::kTokens);
  service_.logs["f"] = "";
  access_.signers["LAMB-reader"] = {access_.bearers["reader"], "secret"};
  http::Request request = request_of("GET", "/v1/functions/f/log?follow=1", "", {});
  request.headers.add("Authorization", "Bearer reader");
  auto seen = std::make_shared<Exchanged>();
  router_->handle(std::move(request), responder_to(seen));
  const auto turn = [&] {
    clock_.advance(milliseconds(150));
    loop_.run_once(Duration(0));
  };
  turn();
  EXPECT_FALSE(seen->finished);
  access_.signers.erase("LAMB-reader");  // it was revoked
  turn();
  EXPECT_TRUE(seen->finished);
}

TEST_F(RouterTest, ChangesAndRefusalsAreAudited) {
  use(AuthMode::kTokens);
  EXPECT_EQ(call("GET", "/2015-03-31/functions", "reader").status, 200);
  EXPECT_EQ(call("POST", kInvokeF, "invoker", "{}").status, 200);
  EXPECT_TRUE(audited_.empty());
  EXPECT_EQ(call("DELETE", "/2015-03-31/functions/f?x=secret", "deployer").status, 204);
  ASSERT_EQ(audited_.size(), 1u);
  EXPECT_EQ(audited_[0].token, "LAMB-deployer");
  EXPECT_EQ(audited_[0].tenant, "team");
  EXPECT_EQ(audited_[0].method, "DELETE");
  EXPECT_EQ(audited_[0].path, "/2015-03-31/functions/f");
  EXPECT_EQ(audited_[0].status, 204);
  call("GET", "/v1/functions", "forged");
  ASSERT_EQ(audited_.size(), 2u);
  EXPECT_EQ(audited_[1].status, 401);
  EXPECT_EQ(audited_[1].token, "");
  call("POST", "/v1/tenants", "reader", "{}");
  ASSERT_EQ(audited_.size(), 3u);
  EXPECT_EQ(audited_[2].status, 403);
  EXPECT_EQ(audited_[2].token, "LAMB-reader");
}

TEST_F(RouterTest, AChangeIsAnsweredOnceItIsWrittenDown) {
  use(AuthMode::kTokens);
  holds_audit_ = true;
  EXPECT_EQ(call("DELETE", "/2015-03-31/functions/f", "deployer").status, 0);
  EXPECT_EQ(audited_.size(), 1u);
}

TEST_F(RouterTest, ASuccessThatCannotBeWrittenDownIsAnErrorAndAFailureStaysWhatItWas) {
  use(AuthMode::kTokens);
  audit_result_ = Error{ErrorCode::kStorageFull, "no space left on device"};
  const http::Response withheld = call("DELETE", "/2015-03-31/functions/f", "deployer");
  EXPECT_EQ(withheld.status, 507);
  EXPECT_THAT(withheld.body, testing::HasSubstr("the audit log could not be written"));
  EXPECT_EQ(call("GET", "/v1/functions", "forged").status, 401);
}

// As botocore 1.43 signs it; see sigv4_test.cc.
http::Request signed_invocation() {
  http::Request request = request_of(
      "POST", "/2015-03-31/functions/f/invocations", R"({"x":1})",
      {{"X-Amz-Invocation-Type", "Event"},
       {"amz-sdk-invocation-id", "b2f1"},
       {"X-Note", "  a   b "},
       {"X-Amz-Date", "20261128T040506Z"},
       {"Authorization",
        "AWS4-HMAC-SHA256 Credential=LAMBAAAABBBBCCCCDDDD/20261128/us-east-1/lambda/aws4_request, "
        "SignedHeaders=amz-sdk-invocation-id;host;x-amz-date;x-amz-invocation-type;x-note, "
        "Signature=3942d92c1027e5e1f60498a5dda713d835476e81ab72689f79f3b14fd84b212d"}});
  request.headers.set("Host", "127.0.0.1:8980");
  return request;
}

class SignedRequests : public RouterTest {
 protected:
  SignedRequests() {
    access_.signers["LAMBAAAABBBBCCCCDDDD"] = {
        .principal = {.tenant = kTeam, .scopes = {Scope::kInvoke}, .token = "LAMB"},
        .signing_secret = std::string(kSecret)};
    clock_.set(Instant(seconds(1795838706) - clock_.wall_now()));
    use(AuthMode::kTokens);
  }
};

TEST_F(SignedRequests, ASignatureIsItsTokensPrincipal) {
  EXPECT_EQ(send(signed_invocation()).status, 202);
  EXPECT_EQ(service_.submitted.back().function, (FunctionName{kTeam, "f"}));
}

TEST_F(SignedRequests, OneThatDoesNotMatchIsRefusedAsAwsDoes) {
  http::Request changed = signed_invocation();
  changed.body = "{}";
  const http::Response refused = send(std::move(changed));
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(refused.headers.get("x-amzn-ErrorType"), "InvalidSignatureException");
  access_.signers.clear();
  EXPECT_EQ(send(signed_invocation()).headers.get("x-amzn-ErrorType"),
            "UnrecognizedClientException");
  http::Request malformed = signed_invocation();
  malformed.headers.set("Authorization", "AWS4-HMAC-SHA256 Credential=x");
  EXPECT_EQ(send(std::move(malformed)).headers.get("x-amzn-ErrorType"),
            "IncompleteSignatureException");
  EXPECT_TRUE(service_.submitted.empty());
}

TEST_F(SignedRequests, WithoutTokensForeignKeysAreNotLookedAt) {
  use(AuthMode::kNone);
  http::Request request =
      request_of("POST", "/2015-03-31/functions/g/invocations", "{}",
                 {{"X-Amz-Date", "20261128T040506Z"},
                  {"Authorization",
                   "AWS4-HMAC-SHA256 Credential=AKIAX/20261128/us-east-1/lambda/aws4_request, "
                   "SignedHeaders=host;x-amz-date, Signature=" +
                       std::string(64, '0')}});
  EXPECT_EQ(send(std::move(request)).status, 200);
  // One of ours that is wrong is a mistake, which is better told.
  http::Request ours = signed_invocation();
  ours.body = "{}";
  EXPECT_EQ(send(std::move(ours)).status, 403);
}

TEST_F(SignedRequests, OneForAnotherServiceOfAwsIsToldThatThisIsLambda) {
  use(AuthMode::kNone);
  http::Request request = request_of("POST", "/", "Action=GetCallerIdentity", {});
  request.headers.add("Authorization",
                      "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/sts/aws4_request, "
                      "SignedHeaders=host, Signature=" +
                          std::string(64, 'a'));
  const http::Response response = send(std::move(request));
  EXPECT_EQ(response.status, 501);
  EXPECT_THAT(response.body, testing::HasSubstr("Lambda's API only"));
}

TEST_F(SignedRequests, TheDigestOfALargeBodyIsComputedElsewhere) {
  http::Request large = signed_invocation();
  large.body = std::string(300 * 1024, 'x');
  EXPECT_EQ(send(large).headers.get("x-amzn-ErrorType"), "InvalidSignatureException");
  takes_work_ = false;
  EXPECT_EQ(send(large).status, 429);
  EXPECT_EQ(send(signed_invocation()).status, 202);
}

class TenantRoutes : public RouterTest {
 protected:
  TenantRoutes() { use(AuthMode::kNone); }
  json call_json(const std::string& method, const std::string& target, const std::string& body,
                 int status) {
    const http::Response response = call(method, target, "", body);
    EXPECT_EQ(response.status, status) << method << " " << target << " " << response.body;
    return json::parse(response.body);
  }
};

TEST_F(TenantRoutes, ATenantIsMadeChangedAndRemoved) {
  const json made = call_json(
      "POST", "/v1/tenants",
      R"({"name":"vision","weight":2,"quotas":{"functions":3,"gpu_memory_bytes":8589934592}})",
      201);
  EXPECT_EQ(made["weight"], 2);
  EXPECT_EQ(made["quotas"]["functions"], 3);
  EXPECT_EQ(made["quotas"]["gpu_memory_bytes"], 8589934592);
  EXPECT_TRUE(made["quotas"]["disk_bytes"].is_null());
  const json changed =
      call_json("PATCH", "/v1/tenants/vision",
                R"({"quotas":{"functions":null,"gpu_seconds_per_hour":90.5}})", 200);
  EXPECT_EQ(changed["weight"], 2);
  EXPECT_TRUE(changed["quotas"]["functions"].is_null());
  EXPECT_EQ(changed["quotas"]["gpu_seconds_per_hour"], 90.5);
  EXPECT_EQ(call_json("GET", "/v1/tenants/vision", "", 200)["quotas"], changed["quotas"]);
  call_json("DELETE", "/v1/tenants/vision", "", 200);
  call_json("GET", "/v1/tenants/vision", "", 404);
  call_json("PATCH", "/v1/tenants/vision", "{}", 404);
}

TEST_F(TenantRoutes, TheyAreListedInPages) {
  const json page = call_json("GET", "/v1/tenants?limit=1", "", 200);
  EXPECT_EQ(page["tenants"].size(), 1u);
  EXPECT_EQ(page["next"], "default");
  const json rest = call_json("GET", "/v1/tenants?after=default", "", 200);
  EXPECT_EQ(rest["tenants"][0]["name"], "team");
  EXPECT_TRUE(rest["next"].is_null());
  call_json("GET", "/v1/tenants?limit=0", "", 400);
}

TEST_F(TenantRoutes, DocumentsThatAreWrongNameThePlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},
      {"[]", ""},
      {"{}", "name"},
      {R"({"name":"A"})", "lower-case"},
      {R"({"name":"a","wieght":1})", "wieght"},
      {R"({"name":"a","weight":0})", "weight"},
      {R"({"name":"a","weight":"1"})", "weight"},
      {R"({"name":"a","quotas":[]})", "quotas"},
      {R"({"name":"a","quotas":{"functions":-1}})", "quotas.functions"},
      {R"({"name":"a","quotas":{"functions":1.5}})", "quotas.functions"},
      {R"({"name":"a","quotas":{"gpus":1}})", "gpus"},
      {R"({"name":"a","quotas":{"requests_per_second":0}})", "requests_per_second"},
      {R"({"name":"a","quotas":{"disk_bytes":1e300}})", "quotas.disk_bytes"}};
  for (const auto& [body, place] : cases) {
    const json refused = call_json("POST", "/v1/tenants", body, 400);
    EXPECT_NE(refused["error"]["message"].get<std::string>().find(place), std::string::npos)
        << body << " " << refused;
  }
  EXPECT_EQ(access_.tenants.size(), 2u);
}

TEST_F(TenantRoutes, ATokenIsShownOnceAndRevoked) {
  const json issued =
      call_json("POST", "/v1/tenants/team/tokens",
                R"({"name":"ci","scopes":["deploy","read"],"lifetime_seconds":60})", 201);
  EXPECT_EQ(issued["secret"], "lambent_secret");
  EXPECT_EQ(issued["aws_access_key_id"], issued["id"]);
  EXPECT_EQ(issued["aws_secret_access_key"], "signing");
  EXPECT_EQ(issued["scopes"], json::parse(R"(["deploy","read"])"));
  EXPECT_EQ(issued["expires_at"].get<double>() - issued["created_at"].get<double>(), 60);
  const http::Response listed = call("GET", "/v1/tenants/team/tokens");
  EXPECT_EQ(json::parse(listed.body)["tokens"][0]["id"], issued["id"]);
  EXPECT_EQ(listed.body.find("secret"), std::string::npos);
  EXPECT_EQ(listed.headers.get("Cache-Control"), "no-store");
  const std::string path = "/v1/tenants/team/tokens/" + issued["id"].get<std::string>();
  call_json("DELETE", "/v1/tenants/default/tokens/" + issued["id"].get<std::string>(), "", 404);
  call_json("DELETE", path, "", 200);
  call_json("DELETE", path, "", 404);
}

TEST_F(TenantRoutes, ATokenForACertificateHasNoSecrets) {
  const json issued =
      call_json("POST", "/v1/tenants/team/tokens",
                R"({"name":"alice","scopes":["read"],"certificate":"dns:Laptop.example"})", 201);
  EXPECT_EQ(issued["certificate"], "dns:laptop.example");
  EXPECT_FALSE(issued.contains("secret"));
  EXPECT_FALSE(issued.contains("aws_secret_access_key"));
  EXPECT_EQ(json::parse(call("GET", "/v1/tenants/team/tokens").body)["tokens"][0]["certificate"],
            "dns:laptop.example");
}

TEST_F(TenantRoutes, TokenRequestsThatAreWrongAreRefused) {
  for (const char* body :
       {"", "{}", R"({"name":"a"})", R"({"name":"a","scopes":[]})", R"({"name":"a","scopes":[1]})",
        R"({"name":"a","scopes":["root"]})", R"({"name":1,"scopes":["read"]})",
        R"({"name":"a","scopes":["read"],"lifetime_seconds":0})",
        R"({"name":"a","scopes":["read","read","read","read","read"]})",
        R"({"name":"a","scopes":["read"],"expires":1})",
        R"({"name":"a","scopes":["read"],"certificate":"alice"})",
        R"({"name":"a","scopes":["read"],"certificate":1})"}) {
    call_json("POST", "/v1/tenants/team/tokens", body, 400);
  }
  call_json("POST", "/v1/tenants/nobody/tokens", R"({"name":"a","scopes":["read"]})", 404);
  EXPECT_TRUE(access_.tokens.empty());
}

TEST_F(TenantRoutes, PathsAndMethodsThatAreNoneAreToldApart) {
  call_json("PUT", "/v1/tenants", "", 405);
  call_json("POST", "/v1/tenants/team", "", 405);
  call_json("GET", "/v1/tenants/team/tokens/x", "", 405);
  call_json("GET", "/v1/tenants/team/quotas", "", 404);
  call_json("POST", "/v1/whoami", "", 405);
  call_json("GET", "/v1/tenants/a%2", "", 404);
}

TEST_F(RouterTest, ASecretGoesInAndNeverComesOut) {
  use(AuthMode::kTokens);
  EXPECT_EQ(call("PUT", "/v1/secrets/pw", "deployer", "hunter2").status, 200);
  EXPECT_EQ(secrets_.find_secret(kTeam, "pw"), "hunter2");
  const http::Response listed = call("GET", "/v1/secrets", "deployer");
  EXPECT_EQ(json::parse(listed.body)["secrets"][0]["name"], "pw");
  EXPECT_EQ(listed.body.find("hunter2"), std::string::npos);
  EXPECT_EQ(json::parse(call("GET", "/v1/secrets", "admin").body)["secrets"].size(), 0u);
  EXPECT_EQ(call("GET", "/v1/secrets/pw", "admin").status, 405);
  EXPECT_EQ(call("POST", "/v1/secrets", "admin", "x").status, 405);
  EXPECT_EQ(call("PUT", "/v1/secrets/a/b", "admin", "x").status, 404);
  for (const AuditRecord& record : audited_) {
    EXPECT_EQ(record.path.find("hunter2"), std::string::npos);
  }
  EXPECT_EQ(call("DELETE", "/v1/secrets/pw", "deployer").status, 200);
  EXPECT_EQ(call("DELETE", "/v1/secrets/pw", "deployer").status, 404);
}

TEST_F(RouterTest, FilesOfVolumesStreamAndPutsAndRemovesAreAudited) {
  use(AuthMode::kTokens);
  EXPECT_TRUE(router_->streams(request_of("PUT", "/v1/volumes/w/files/a/b")));
  EXPECT_TRUE(router_->streams(request_of("GET", "/v1/volumes/w/files/a%2Fb?sha256=x")));
  EXPECT_FALSE(router_->streams(request_of("GET", "/v1/volumes/w/files")));
  EXPECT_FALSE(router_->streams(request_of("DELETE", "/v1/volumes/w/files/a")));
  EXPECT_FALSE(router_->streams(request_of("PUT", "/v1/volumes/w")));
  EXPECT_EQ(call("PUT", "/v1/volumes/w", "deployer").status, 200);
  EXPECT_EQ(call("PUT", "/v1/volumes/w/files/a/b", "deployer", "hello").status, 200);
  EXPECT_EQ(call("GET", "/v1/volumes/w/files/a/b", "reader").body, "hello");
  EXPECT_EQ(call("DELETE", "/v1/volumes/w/files/a/b", "deployer").status, 200);
  ASSERT_EQ(audited_.size(), 3u);
  EXPECT_EQ(audited_[1].method + " " + audited_[1].path, "PUT /v1/volumes/w/files/a/b");
  EXPECT_EQ(audited_[1].status, 200);
  EXPECT_EQ(audited_[2].method, "DELETE");
  EXPECT_EQ(volumes_.list_volumes(kTeam).size(), 1u);
  EXPECT_TRUE(volumes_.list_volumes(kDefaultTenant).empty());
}

TEST_F(RouterTest, RequestsToHttpFunctionsNeedTheScopeInvoke) {
  use(AuthMode::kTokens);
  EXPECT_EQ(call("GET", "/f/web/").status, 401);
  EXPECT_EQ(call("GET", "/f/web/", "reader").status, 403);
  EXPECT_EQ(call("POST", "/f/web/", "deployer").status, 403);
  EXPECT_TRUE(relays_.calls.empty());
  call("POST", "/f/web/a", "invoker");
  ASSERT_EQ(relays_.calls.size(), 1u);
  EXPECT_EQ(relays_.calls[0].function, (FunctionName{kTeam, "web"}));
  EXPECT_FALSE(relays_.calls[0].head.headers.contains("Authorization"));
}

TEST_F(RouterTest, TheInferenceProtocolIsAnsweredWithItsOwnErrors) {
  use(AuthMode::kTokens);
  EXPECT_EQ(json::parse(call("GET", "/v2").body)["name"], "lambent");
  EXPECT_EQ(call("GET", "/v2/health/ready").status, 200);
  const http::Response refused = call("GET", "/v2/models/m/ready");
  EXPECT_EQ(refused.status, 401);
  EXPECT_TRUE(json::parse(refused.body)["error"].is_string());
  EXPECT_EQ(call("POST", "/v2/models/m/infer", "reader").status, 403);
  EXPECT_EQ(call("POST", "/v2/repository/index").status, 401);
  EXPECT_EQ(call("POST", "/v2/repository/models/m/unload", "reader").status, 403);
  for (const char* path : {"/v2/nothing", "/v2/models"}) {
    const http::Response unknown = call("GET", path, "admin");
    EXPECT_EQ(unknown.status, 404) << path;
    EXPECT_TRUE(json::parse(unknown.body)["error"].is_string()) << path;
  }
  EXPECT_EQ(call("POST", "/v2/health/live").status, 405);
}

TEST_F(RouterTest, ModelsOfTheTenantAreUnloadedInAllTheirVersions) {
  use(AuthMode::kTokens);
  FunctionSpec model = named({kTeam, "m"});
  model.kind = FunctionKind::kHttp;
  model.handler = "lambent-model-server model.onnx";
  FunctionSpec other = named({kTeam, "plain"});
  service_.functions[model.name] = model;
  service_.functions[other.name] = other;
  const auto unload = [this](const std::string& name) {
    return call("POST", "/v2/repository/models/" + name + "/unload", "invoker");
  };
  EXPECT_EQ(unload("m").status, 200);
  EXPECT_EQ(service_.unloaded, (std::vector<FunctionName>{{kTeam, "m"}}));
  EXPECT_EQ(unload("%6D").status, 200);
  EXPECT_EQ(service_.unloaded, (std::vector<FunctionName>{{kTeam, "m"}, {kTeam, "m"}}));
  EXPECT_EQ(unload("%zz").status, 404);
  EXPECT_EQ(call("GET", "/v2/repository/models/m/unload", "invoker").status, 405);
  for (const char* name : {"none", "plain"}) {
    const http::Response refused = unload(name);
    EXPECT_EQ(refused.status, 404) << name;
    EXPECT_TRUE(json::parse(refused.body)["error"].is_string()) << name;
  }
  service_.failure = Error{ErrorCode::kFailedPrecondition, "one of it is kept ready"};
  const http::Response pinned = unload("m");
  EXPECT_EQ(json::parse(pinned.body)["error"], "one of it is kept ready");
  EXPECT_EQ(pinned.status, http_status_of(ErrorCode::kFailedPrecondition));
  EXPECT_EQ(service_.unloaded.size(), 2u);
}

TEST_F(RouterTest, WhereAVersionIsKeptReadyNoneIsUnloaded) {
  use(AuthMode::kTokens);
  FunctionSpec model = named({kTeam, "m"});
  model.kind = FunctionKind::kHttp;
  model.handler = "lambent-model-server model.onnx";
  for (const char* name : {"m", "m:1", "m:4"}) {
    model.name.name = name;
    model.min_instances = model.name.name == "m:4" ? 1 : 0;
    service_.functions[model.name] = model;
  }
  const http::Response refused = call("POST", "/v2/repository/models/m/unload", "invoker");
  EXPECT_EQ(refused.status, http_status_of(ErrorCode::kFailedPrecondition));
  EXPECT_TRUE(service_.unloaded.empty());
  service_.functions[{kTeam, "m:4"}].min_instances = 0;
  EXPECT_EQ(call("POST", "/v2/repository/models/m/unload", "invoker").status, 200);
  EXPECT_EQ(service_.unloaded.size(), 3u);
}

TEST_F(RouterTest, TheRepositoryListsTheTenantsModels) {
  use(AuthMode::kTokens);
  FunctionSpec model = named({kTeam, "m"});
  model.kind = FunctionKind::kHttp;
  model.handler = "lambent-model-server model.onnx";
  service_.functions[model.name] = model;
  model.name.tenant = kDefaultTenant;
  service_.functions[model.name] = model;
  const auto index = [this] {
    return json::parse(call("POST", "/v2/repository/index", "reader").body);
  };
  EXPECT_EQ(index(), json::parse(R"([{"name":"m","version":"1","state":"READY","reason":"",
                                      "tier":"disk"}])"));
  SandboxStatus sandbox;
  sandbox.function = {kTeam, "m"};
  sandbox.state = "idle";
  service_.sandboxes = {sandbox};
  EXPECT_EQ(index()[0]["tier"], "host");
  EXPECT_EQ(service_.memory_readings, 0u) << "system calls for each sandbox, for a list of models";
}

TEST_F(RouterTest, WhatAClientUnloadedIsNotReadyUntilItIsLoadedOrASandboxStarts) {
  use(AuthMode::kTokens);
  FunctionSpec model = named({kTeam, "m"});
  model.kind = FunctionKind::kHttp;
  model.handler = "lambent-model-server model.onnx";
  service_.functions[model.name] = model;
  const auto index = [this](const std::string& body = "") {
    return call("POST", "/v2/repository/index", "reader", body);
  };
  const auto state = [&] { return json::parse(index().body)[0]["state"].get<std::string>(); };
  // A request that reaches the function.
  const auto passes = [this](const std::string& method, const std::string& path) {
    const size_t before = relays_.calls.size();
    call(method, path, "invoker");
    return relays_.calls.size() > before;
  };
  SandboxStatus sandbox;
  sandbox.id = SandboxId(1);
  sandbox.function = {kTeam, "m"};
  sandbox.state = "busy";
  service_.sandboxes = {sandbox};
  ASSERT_EQ(call("POST", "/v2/repository/models/m/unload", "invoker").status, 200);
  EXPECT_EQ(state(), "UNLOADING");
  EXPECT_EQ(call("GET", "/v2/models/m/ready", "invoker").status, 503);
  service_.sandboxes.clear();
  const json gone = json::parse(index().body)[0];
  EXPECT_EQ(gone["state"], "UNAVAILABLE");
  EXPECT_EQ(gone["reason"], "unloaded");
  EXPECT_EQ(json::parse(index(R"({"ready":false})").body).size(), 1u);
  EXPECT_EQ(json::parse(index(R"({"ready":true})").body).size(), 0u);
  EXPECT_FALSE(passes("GET", "/v2/models/m/ready"));
  EXPECT_FALSE(passes("GET", "/v2/models/m/versions/1/ready"));
  EXPECT_TRUE(passes("GET", "/v2/models/m"));
  EXPECT_EQ(state(), "UNAVAILABLE");
  // A call, by whatever API, has started one.
  sandbox.id = SandboxId(2);
  sandbox.state = "starting";
  service_.sandboxes = {sandbox};
  EXPECT_EQ(state(), "READY");
  EXPECT_TRUE(passes("GET", "/v2/models/m/ready"));
  service_.sandboxes.clear();
  ASSERT_EQ(call("POST", "/v2/repository/models/m/unload", "invoker").status, 200);
  EXPECT_EQ(state(), "UNAVAILABLE");
  EXPECT_TRUE(passes("POST", "/v2/repository/models/m/load"));
  EXPECT_EQ(state(), "READY");
  EXPECT_TRUE(passes("GET", "/v2/models/m/versions/1/ready"));
  EXPECT_EQ(index(R"({"ready":1})").status, 400);
  EXPECT_EQ(index("[").status, 400);
}

TEST_F(RouterTest, TheRepositoryListsTheVersionsOfAModel) {
  use(AuthMode::kTokens);
  FunctionSpec model = named({kTeam, "m"});
  model.kind = FunctionKind::kHttp;
  model.handler = "lambent-model-server model.onnx";
  for (const char* name : {"m", "m:1", "m:4"}) {
    model.name.name = name;
    service_.functions[model.name] = model;
  }
  const auto listed = [this] {
    std::vector<std::string> versions;
    for (const json& each : json::parse(call("POST", "/v2/repository/index", "reader").body)) {
      if (each["name"] == "m") versions.push_back(each["version"]);
    }
    return versions;
  };
  SandboxStatus sandbox;
  sandbox.function = {kTeam, "m:4"};
  sandbox.state = "busy";
  service_.sandboxes = {sandbox};
  std::map<std::string, std::string> tiers;
  for (const json& each : json::parse(call("POST", "/v2/repository/index", "reader").body)) {
    if (each["name"] == "m") tiers[each["version"]] = each["tier"];
  }
  EXPECT_EQ(tiers, (std::map<std::string, std::string>{
                       {"1", "disk"}, {"4", "host"}, {"$LATEST", "disk"}}));
  // What was deployed last is a version of its own, until an alias says which one serves.
  EXPECT_EQ(listed(), (std::vector<std::string>{"1", "4", "$LATEST"}));
  versions_.aliases[{{kTeam, "m"}, "serving"}] = {
      .function = {kTeam, "m"}, .name = "serving", .description = "", .version = "4", .second = ""};
  EXPECT_EQ(listed(), (std::vector<std::string>{"1", "4"}));
  call("POST", "/v2/models/m/versions/4/infer", "invoker", "{}");
  ASSERT_EQ(relays_.calls.size(), 1u);
  EXPECT_TRUE(relays_.calls[0].is_inference);
  EXPECT_EQ(relays_.calls[0].model_version, "4");
}

TEST_F(RouterTest, RequestsToAModelAreRelayedWithTheirPath) {
  use(AuthMode::kTokens);
  call("POST", "/v2/models/m/infer", "invoker", "{}");
  ASSERT_EQ(relays_.calls.size(), 1u);
  EXPECT_EQ(relays_.calls[0].function, (FunctionName{kTeam, "m"}));
  EXPECT_EQ(relays_.calls[0].head.target, "/v2/models/m/infer");
  const http::Response failed =
      relays_.calls[0].answer_of(Error{ErrorCode::kNotFound, "there is no function 'm'"});
  EXPECT_EQ(failed.status, 404);
  EXPECT_EQ(json::parse(failed.body)["error"], "there is no function 'm'");
  call("POST", "/v2/repository/models/m/load", "invoker", "{}");
  ASSERT_EQ(relays_.calls.size(), 2u);
  EXPECT_EQ(relays_.calls[1].function, (FunctionName{kTeam, "m"}));
  EXPECT_EQ(relays_.calls[1].head.target, "/v2/repository/models/m/load");
}

TEST_F(RouterTest, OpenaisApiIsAnsweredWithItsOwnErrorsByScope) {
  use(AuthMode::kTokens);
  FunctionSpec spec = named({kTeam, "chat"});
  spec.kind = FunctionKind::kHttp;
  spec.tags["lambent:openai-models"] = "tiny";
  service_.functions[spec.name] = spec;
  const std::string body = R"({"model": "tiny"})";
  const http::Response refused = call("POST", "/v1/completions", "", body);
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(code_of(refused), "invalid_api_key");
  EXPECT_EQ(call("POST", "/v1/completions", "reader", body).status, 403);
  EXPECT_EQ(json::parse(call("GET", "/v1/models", "reader").body)["data"].size(), 1u);
  EXPECT_EQ(code_of(call("POST", "/v1/completions", "admin", body)), "model_not_found")
      << "another tenant's";
  call("POST", "/v1/completions", "invoker", body);
  ASSERT_EQ(relays_.calls.size(), 1u);
  EXPECT_EQ(relays_.calls.back().function, (FunctionName{kTeam, "chat"}));
  EXPECT_FALSE(relays_.calls.back().head.headers.contains("Authorization"));
}

TEST_F(RouterTest, AnOpenaiClientsKeyIsNotTheWorkersWhereThatWantsNone) {
  use(AuthMode::kNone);
  EXPECT_EQ(call("GET", "/v1/models", "sk-any").status, 200);
  FunctionSpec spec = named({kDefaultTenant, "chat"});
  spec.kind = FunctionKind::kHttp;
  spec.tags["lambent:openai-models"] = "tiny";
  service_.functions[spec.name] = spec;
  call("POST", "/v1/completions", "sk-any", R"({"model": "tiny"})");
  ASSERT_EQ(relays_.calls.size(), 1u);
  EXPECT_EQ(relays_.calls.back().head.headers.get("Authorization"), "Bearer sk-any");
}

TEST_F(RouterTest, TheHostOfAFunctionServesNothingElse) {
  use(AuthMode::kNone);
  call("GET", "/v1/functions", "", "", {{"Host", "web.lambent.localhost:8980"}});
  ASSERT_EQ(relays_.calls.size(), 1u);
  EXPECT_EQ(relays_.calls[0].function.name, "web");
  EXPECT_EQ(relays_.calls[0].head.target, "/v1/functions");
}

TEST_F(RouterTest, SeveralTokensOfOursAreRefusedBeforeAFunctionToo) {
  use(AuthMode::kTokens);
  EXPECT_EQ(call("GET", "/f/web/", "", "",
                 {{"X-Lambent-Authorization", "Bearer invoker"},
                  {"X-Lambent-Authorization", "Bearer admin"}})
                .status,
            401);
  EXPECT_TRUE(relays_.calls.empty());
}

TEST_F(RouterTest, AProgramsOwnTokenIsNotTheWorkersWhereThatWantsNone) {
  use(AuthMode::kNone);
  call("GET", "/f/web/", "of the program");
  ASSERT_EQ(relays_.calls.size(), 1u);
  EXPECT_EQ(relays_.calls[0].head.headers.get("Authorization"), "Bearer of the program");
}

TEST_F(RouterTest, AnOpenFunctionTakesRequestsOfAnyoneAtThePathOfItsTenantAlone) {
  use(AuthMode::kTokens);
  relays_.open = {{kTeam, "f"}};
  (void)call("POST", "/t/team/f/f/hook", "", "x");
  ASSERT_EQ(relays_.calls.size(), 1u);
  EXPECT_TRUE(relays_.calls[0].is_anonymous);
  EXPECT_EQ(relays_.calls[0].function, (FunctionName{kTeam, "f"}));
  EXPECT_EQ(relays_.calls[0].head.target, "/hook");
  // Whatever credentials it has are the function's.
  (void)call("GET", "/t/team/f/f/", "forged");
  EXPECT_EQ(relays_.calls.back().head.headers.get("Authorization"), "Bearer forged");
  for (const char* other : {"/f/f/", "/t/team/f/g/", "/t/default/f/f/", "/t/absent/f/f/"}) {
    EXPECT_EQ(call("GET", other).status, 401) << other;
  }
  EXPECT_EQ(call("GET", "/t/team/f/f/", "", "", {{"Origin", "http://evil.example"}}).status, 403);
  EXPECT_EQ(relays_.calls.size(), 2u);
}

TEST_F(RouterTest, APathWithATenantIsForItsOwnAndAdmins) {
  use(AuthMode::kTokens);
  bearer("foreign", {Scope::kInvoke}, kDefaultTenant);
  (void)call("GET", "/t/team/f/f/", "invoker");
  ASSERT_EQ(relays_.calls.size(), 1u);
  EXPECT_FALSE(relays_.calls[0].is_anonymous);
  EXPECT_EQ(call("GET", "/t/team/f/f/", "foreign").status, 403);
  EXPECT_EQ(call("GET", "/t/team/f/f/", "reader").status, 403);
  (void)call("GET", "/t/team/f/f/", "admin");
  ASSERT_EQ(relays_.calls.size(), 2u);
  EXPECT_EQ(relays_.calls[1].function.tenant, kTeam);
}

TEST_F(RouterTest, APageThatAFunctionAllowsReachesThatFunctionAndNothingElse) {
  use(AuthMode::kTokens);
  relays_.open = {{kTeam, "f"}, {kTeam, "g"}};
  relays_.cors = {
      {{kTeam, "f"}, R"({"allow_origins":["https://app.example"],"allow_methods":["PUT"]})"}};
  const HeaderList app = {{"Origin", "https://app.example"}, {"Sec-Fetch-Site", "cross-site"}};
  (void)call("PUT", "/t/team/f/f/x", "", "b", app);
  ASSERT_EQ(relays_.calls.size(), 1u);
  EXPECT_EQ(relays_.calls[0].answer_headers.get("Access-Control-Allow-Origin"),
            "https://app.example");
  // No other method, page, function, path or API.
  EXPECT_EQ(call("POST", "/t/team/f/f/x", "", "b", app).status, 403);
  EXPECT_EQ(call("PUT", "/t/team/f/f/x", "", "b", {{"Origin", "https://evil.example"}}).status,
            403);
  EXPECT_EQ(call("PUT", "/t/team/f/f/x", "", "b", {{"Sec-Fetch-Site", "cross-site"}}).status, 403);
  for (const char* other : {"/t/team/f/g/", "/t/absent/f/f/", "/f/f/", "/v1/functions",
                            "/2015-03-31/functions", "/v2/models/f/infer", "/"}) {
    EXPECT_EQ(call("PUT", other, "invoker", "b", app).status, 403) << other;
  }
  EXPECT_EQ(relays_.calls.size(), 1u);
}

TEST_F(RouterTest, APreflightIsAnsweredForTheFunctionAndSeenByNone) {
  use(AuthMode::kTokens);
  relays_.cors = {{{kTeam, "f"},
                   R"({"allow_origins":["https://app.example"],)"
                   R"("allow_methods":["PUT"],"allow_headers":["authorization"]})"}};
  HeaderList asks = {{"Origin", "https://app.example"}, {"Access-Control-Request-Method", "PUT"}};
  const http::Response answer = call("OPTIONS", "/t/team/f/f/", "", "", asks);
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(answer.headers.get("Access-Control-Allow-Methods"), "PUT");
  asks[1].second = "DELETE";
  EXPECT_EQ(call("OPTIONS", "/t/team/f/f/", "", "", asks).status, 403);
  EXPECT_TRUE(relays_.calls.empty());
  // The request itself still wants a token: the URL is not open.
  EXPECT_EQ(call("PUT", "/t/team/f/f/", "", "b", {asks[0]}).status, 401);
  (void)call("PUT", "/t/team/f/f/", "invoker", "b", {asks[0]});
  EXPECT_EQ(relays_.calls.size(), 1u);
}

TEST_F(RouterTest, WithoutTokensTheDefaultTenantsFunctionsAreMeant) {
  use(AuthMode::kNone);
  relays_.cors = {{{kDefaultTenant, "f"}, R"({"allow_origins":["*"]})"}};
  (void)call("POST", "/f/f/", "", "b", {{"Origin", "https://any.example"}});
  ASSERT_EQ(relays_.calls.size(), 1u);
  EXPECT_EQ(relays_.calls[0].answer_headers.get("Access-Control-Allow-Origin"), "*");
  EXPECT_EQ(call("POST", "/f/g/", "", "b", {{"Origin", "https://any.example"}}).status, 403);
  EXPECT_EQ(call("POST", "/f/f/", "", "b", {{"Origin", "https://a"}, {"Host", "evil.test"}}).status,
            403);
}

}  // namespace
}  // namespace lambent::frontend
