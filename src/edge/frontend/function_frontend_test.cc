#include "edge/frontend/function_frontend.h"

#include <gmock/gmock.h>

#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

using testing::HasSubstr;

class FunctionFrontendTest : public testing::Test {
 protected:
  const http::RelayCall& relay(http::Request request, const std::string& prefix = "/f/web") {
    frontend.handle({.tenant = kDefaultTenant}, {"web", "/path?query", prefix}, std::move(request),
                    responder_to(std::make_shared<Exchanged>()));
    return relays.calls.back();
  }
  static http::Request from(const std::string& address,
                            std::vector<std::pair<std::string, std::string>> headers = {}) {
    http::Request request = request_of("POST", "/f/web/path?query", "", headers);
    request.peer.address = address;
    return request;
  }
  static InvocationResult failed(Outcome outcome, ErrorCode code, const std::string& type = "") {
    InvocationResult result;
    result.outcome = outcome;
    result.error = Error{code, "why"};
    result.error_type = type;
    result.log_tail = "last words";
    return result;
  }

  FakeClock clock;
  loop::EventLoop loop{clock};
  SeededRandom random{1};
  FakeRelays relays;
  BodyCollector bodies;
  FunctionFrontend frontend{{relays, bodies, loop, random, [](auto work, auto then) {
                               work();
                               then();
                               return true;
                             }}};
};

TEST_F(FunctionFrontendTest, TheProgramGetsItsPathAndWhereTheRequestComesFrom) {
  const http::RelayCall& call = relay(
      from("127.0.0.1:4711", {{"Connection", "close, X-Hop"}, {"X-Hop", "1"}, {"X-End", "2"}}));
  EXPECT_EQ(call.function.name, "web");
  EXPECT_EQ(call.head.target, "/path?query");
  const http::Headers& headers = call.head.headers;
  EXPECT_EQ(headers.get("Host"), "localhost:8980");
  EXPECT_EQ(headers.get("X-Forwarded-For"), "127.0.0.1");
  EXPECT_EQ(headers.get("X-Forwarded-Host"), "localhost:8980");
  EXPECT_EQ(headers.get("X-Forwarded-Prefix"), "/f/web");
  EXPECT_EQ(headers.get("Forwarded"), "for=127.0.0.1;host=\"localhost:8980\";proto=http");
  EXPECT_FALSE(headers.contains("X-Hop"));
  EXPECT_EQ(headers.get("X-End"), "2");
}

TEST_F(FunctionFrontendTest, ThoseWhoForwardedItBeforeAreKeptInOrder) {
  const http::RelayCall& call = relay(from("[2001:db8::1]:4711", {{"X-Forwarded-For", "10.0.0.1"},
                                                                  {"X-Forwarded-For", "10.0.0.2"},
                                                                  {"X-Forwarded-Proto", "https"}}));
  EXPECT_EQ(call.head.headers.get("X-Forwarded-For"), "10.0.0.1, 10.0.0.2, 2001:db8::1");
  EXPECT_THAT(std::string(call.head.headers.get("Forwarded")), HasSubstr("for=\"[2001:db8::1]\""));
  EXPECT_EQ(call.head.headers.get("X-Forwarded-Proto"), "http")
      << "who says otherwise is not trusted";
}

TEST_F(FunctionFrontendTest, AProxyThatIsTrustedSaysHowTheClientSeesTheFunction) {
  FunctionFrontend behind{{relays, bodies, loop, random, {}},
                          *TrustedProxies::parse({"127.0.0.1"})};
  behind.handle({.tenant = kDefaultTenant}, {"web", "/path", "/f/web"},
                from("127.0.0.1:4711", {{"X-Forwarded-For", "198.51.100.1"},
                                        {"X-Forwarded-Proto", "https"},
                                        {"X-Forwarded-Host", "app.example"}}),
                responder_to(std::make_shared<Exchanged>()));
  const http::Request& head = relays.calls.back().head;
  EXPECT_EQ(head.headers.get("X-Forwarded-For"), "198.51.100.1, 127.0.0.1");
  EXPECT_EQ(head.headers.get("X-Forwarded-Proto"), "https");
  EXPECT_EQ(head.headers.get("X-Forwarded-Host"), "app.example");
  EXPECT_EQ(head.headers.get("X-Forwarded-Prefix"), "/f/web");
  EXPECT_EQ(head.headers.get("Forwarded"), "for=127.0.0.1;host=\"app.example\";proto=https");
  EXPECT_EQ(head.headers.get("Host"), "localhost:8980");
  EXPECT_EQ(head.peer.address, "198.51.100.1:0") << "what an event has as sourceIp";
}

TEST_F(FunctionFrontendTest, NamesThatProgramsTakeForOursAreNotPassedOn) {
  const http::RelayCall& call = relay(from("127.0.0.1:1", {{"X_Forwarded_For", "6.6.6.6"},
                                                           {"x-forwarded_Prefix", "/"},
                                                           {"X_Lambent_Tenant", "a"},
                                                           {"Content_Length", "1"},
                                                           {"my_own", "2"}}));
  EXPECT_EQ(call.head.headers.get("my_own"), "2");
  for (const char* name :
       {"X_Forwarded_For", "x-forwarded_Prefix", "X_Lambent_Tenant", "Content_Length"}) {
    EXPECT_FALSE(call.head.headers.contains(name)) << name;
  }
}

TEST_F(FunctionFrontendTest, APageUnderAPathGetsAnOriginOfItsOwn) {
  EXPECT_THAT(std::string(relay(from("")).answer_headers.get("Content-Security-Policy")),
              HasSubstr("sandbox"));
  EXPECT_FALSE(relay(from(""), "").answer_headers.contains("Content-Security-Policy"));
}

TEST_F(FunctionFrontendTest, ItKnowsBodiesAndOtherProtocolsByTheHead) {
  EXPECT_FALSE(relay(from("")).has_body);
  EXPECT_FALSE(relay(from("", {{"Content-Length", "0"}})).has_body);
  EXPECT_TRUE(relay(from("", {{"Content-Length", "5"}})).has_body);
  EXPECT_TRUE(relay(from("", {{"Transfer-Encoding", "chunked"}})).has_body);
  EXPECT_EQ(relay(from("", {{"Connection", "upgrade"}, {"Upgrade", "websocket"}})).upgrade,
            "websocket");
}

TEST_F(FunctionFrontendTest, FailuresAreThoseOfAGateway) {
  const auto answer_of = relay(from("")).answer_of;
  EXPECT_EQ(
      answer_of(failed(Outcome::kFunctionError, ErrorCode::kDeadlineExceeded, "Sandbox.Timeout"))
          .status,
      504);
  EXPECT_EQ(
      answer_of(failed(Outcome::kFunctionError, ErrorCode::kUnknown, "Runtime.ExitError")).status,
      502);
  EXPECT_EQ(answer_of(failed(Outcome::kRejected, ErrorCode::kDeadlineExceeded)).status, 503);
  const http::Response full = answer_of(failed(Outcome::kRejected, ErrorCode::kResourceExhausted));
  EXPECT_EQ(full.status, 503);
  EXPECT_EQ(full.headers.get("Retry-After"), "1");
  EXPECT_EQ(answer_of(Error{ErrorCode::kNotFound, "no such function"}).status, 404);
}

TEST_F(FunctionFrontendTest, WhatTheProgramDidWrongIsNoInternalError) {
  InvocationResult no_http;  // the relay's word for it, without an error of the worker's
  no_http.outcome = Outcome::kFunctionError;
  no_http.error_type = "Http.BadAnswer";
  const http::Response answer = relay(from("")).answer_of(no_http);
  EXPECT_EQ(answer.status, 502);
  EXPECT_THAT(answer.body, HasSubstr(R"("code":"UNKNOWN")"));
}

TEST_F(FunctionFrontendTest, TheLogComesWithAFailureIfItIsAskedFor) {
  const auto result = failed(Outcome::kFunctionError, ErrorCode::kInternal);
  EXPECT_THAT(relay(from("", {{"X-Amz-Log-Type", "Tail"}})).answer_of(result).body,
              HasSubstr("last words"));
  EXPECT_THAT(relay(from("")).answer_of(result).body, testing::Not(HasSubstr("last words")));
}

TEST_F(FunctionFrontendTest, TheWorkersTokenDoesNotReachTheProgram) {
  http::Request request = from("", {{"Authorization", "Bearer ours"}});
  separate_authorizations(request, true);
  EXPECT_EQ(request.headers.get("Authorization"), "Bearer ours");
  EXPECT_FALSE(relay(request).head.headers.contains("Authorization"));

  request =
      from("", {{"Authorization", "Bearer program's"}, {"X-Lambent-Authorization", "Bearer ours"}});
  separate_authorizations(request, true);
  EXPECT_EQ(request.headers.get("Authorization"), "Bearer ours");
  EXPECT_EQ(relay(request).head.headers.get("Authorization"), "Bearer program's");
  EXPECT_FALSE(relays.calls.back().head.headers.contains("X-Lambent-Authorization"));

  request = from("", {{"Authorization", "Bearer program's"}});
  separate_authorizations(request, false);
  EXPECT_EQ(request.headers.get("Authorization"), "");
  EXPECT_EQ(relay(request).head.headers.get("Authorization"), "Bearer program's");
}

}  // namespace
}  // namespace lambent::frontend
