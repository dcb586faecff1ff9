// Requests to handlers by the frontend of functions: what is invoked, and what the client gets.
#include "edge/frontend/handler_frontend.h"
#include "core/domain/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/http/forward_words.h"
#include "edge/frontend/function_event.h"
#include "edge/frontend/function_frontend.h"
#include "edge/frontend/limits.h"
#include "edge/frontend/testing/stream_client.h"
#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class HandlerFrontendTest : public testing::Test {
 protected:
  HandlerFrontendTest() {
    spec.name = {kDefaultTenant, "web"};
    spec.kind = FunctionKind::kHandler;
  }
  // Sends the request as far as its head, and its body whole if it has one.
  std::shared_ptr<StreamClient> send(const std::string& body = "", RequestProof proof = {},
                                     const std::string& type = "application/json") {
    auto client = std::make_shared<StreamClient>();
    http::Request request =
        request_of("POST", "/f/web/items?x=1", "", {{"Content-Type", type}, {"X-A", "1"}});
    if (!body.empty()) request.headers.add("Transfer-Encoding", "chunked");
    frontend.handle({.tenant = kDefaultTenant}, {"web", "/items?x=1", "/f/web"}, std::move(request),
                    http::Responder(std::make_shared<StreamExchange>(client)), proof);
    http::RelayCall call = std::move(relays.calls.back());
    const auto to_handler = std::move(call.to_handler);
    to_handler(std::move(call), spec);
    if (client->sink.on_bytes && !body.empty()) {
      const auto sink = client->sink;
      sink.on_bytes(body);
      if (!client->finished) sink.on_end();
    }
    return client;
  }
  void end(const std::string& payload, Outcome outcome = Outcome::kSucceeded,
           std::optional<Error> error = {}) {
    InvocationResult result;
    result.outcome = outcome;
    result.payload = payload;
    result.error = std::move(error);
    const auto done = std::move(relays.invoked.back().done);
    done(result);
  }
  http::AnswerSink& sink() { return *relays.invoked.back().sink; }

  FakeClock clock;
  loop::EventLoop loop{clock};
  SeededRandom random{1};
  FakeRelays relays;
  BodyCollector bodies;
  int offloaded = 0;
  bool takes_work = true;
  FunctionSpec spec;
  FunctionFrontend frontend{{relays, bodies, loop, random,
                             [this](auto work, auto then) {
                               ++offloaded;
                               work();
                               then();
                               return true;
                             },
                             [this] { return takes_work; }}};
};

TEST_F(HandlerFrontendTest, AWorkerThatStopsWaitsForNoBodyAndSaysThatNothingHasBegun) {
  takes_work = false;
  for (const bool is_anonymous : {false, true}) {
    const auto client = send("", {.is_anonymous = is_anonymous});
    ASSERT_TRUE(client->response.has_value());
    EXPECT_EQ(client->response->status, 503);
    EXPECT_TRUE(client->response->headers.contains(http::kNotBegun)) << "another node may run it";
  }
  EXPECT_TRUE(relays.invoked.empty());
}

TEST_F(HandlerFrontendTest, ARequestIsAnEventAndTheResultItsAnswer) {
  const auto client = send("{\"a\":1}");
  ASSERT_EQ(relays.invoked.size(), 1u);
  const InvocationRequest& request = relays.invoked[0].request;
  EXPECT_EQ(request.function.name, "web");
  const json event = json::parse(request.payload);
  EXPECT_EQ(event["rawPath"], "/items");
  EXPECT_EQ(event["body"], "{\"a\":1}");
  EXPECT_EQ(event["headers"]["x-a"], "1");
  EXPECT_EQ(event["headers"]["x-forwarded-prefix"], "/f/web");
  EXPECT_FALSE(event["headers"].contains("transfer-encoding"));
  EXPECT_EQ(event["requestContext"]["requestId"], to_string(request.id));
  end(R"({"statusCode": 201, "body": "made", "headers": {"Content-Type": "text/plain"}})");
  ASSERT_TRUE(client->response.has_value());
  EXPECT_EQ(client->response->status, 201);
  EXPECT_EQ(client->body, "made");
  EXPECT_EQ(client->response->headers.get("X-Lambent-Invocation-Id"), to_string(request.id));
  EXPECT_THAT(std::string(client->response->headers.get("Content-Security-Policy")),
              HasSubstr("sandbox"));
}

TEST_F(HandlerFrontendTest, AFailureSaysWhichRequestItWasAndNoMore) {
  const auto client = send();
  end(R"({"errorMessage": "secret", "errorType": "KeyError"})", Outcome::kFunctionError);
  EXPECT_EQ(client->response->status, 502);
  EXPECT_THAT(client->body, Not(HasSubstr("secret")));
  EXPECT_EQ(json::parse(client->body)["requestId"], to_string(relays.invoked[0].request.id));
}

TEST_F(HandlerFrontendTest, EndsHaveTheStatusOfAGateway) {
  const auto status_after = [&](Outcome outcome, ErrorCode code) {
    const auto client = send();
    end("{}", outcome, Error{code, "why"});
    return client->response->status;
  };
  EXPECT_EQ(status_after(Outcome::kFunctionError, ErrorCode::kDeadlineExceeded), 504);
  EXPECT_EQ(status_after(Outcome::kFunctionError, ErrorCode::kInternal), 502);
  EXPECT_EQ(status_after(Outcome::kRejected, ErrorCode::kResourceExhausted), 503);
  const auto malformed = send();
  end(R"({"statusCode": "no"})");
  EXPECT_EQ(malformed->response->status, 502);
}

TEST_F(HandlerFrontendTest, WhyAnAnswerIsNoResponseIsForThoseWhoMayKnow) {
  const std::string answer = R"({"statusCode": 200, "body": {"a": 1}})";
  const auto client = send();
  end(answer);
  EXPECT_EQ(client->response->status, 502);
  EXPECT_EQ(json::parse(client->body)["reason"],
            "what the handler returned is no HTTP response: body is no text");
  const auto anyone = send("", {.is_anonymous = true});
  end(answer);
  EXPECT_EQ(anyone->response->status, 502);
  EXPECT_FALSE(json::parse(anyone->body).contains("reason"));
  const auto half = send();
  sink().begin(kIntegrationResponse);
  EXPECT_TRUE(sink().take(R"({"statusCode")"));
  end("");
  EXPECT_THAT(half->body, HasSubstr("its head has no end"));
}

TEST_F(HandlerFrontendTest, BodiesHaveALimit) {
  const auto client = send(std::string(limits::kEventBody.count + 1, 'x'));
  EXPECT_EQ(client->response->status, 413);
  EXPECT_TRUE(relays.invoked.empty());
  const auto most = send(std::string(limits::kEventBody.count, 'x'), {}, "text/plain");
  EXPECT_EQ(relays.invoked.size(), 1u);
  EXPECT_EQ(offloaded, 1) << "megabytes are not for the loop";
}

TEST_F(HandlerFrontendTest, AClientThatLeavesBeforeItsBodyIsThereInvokesNothing) {
  const auto client = std::make_shared<StreamClient>();
  http::Request request = request_of("POST", "/f/web/", "", {{"Content-Length", "5"}});
  frontend.handle({.tenant = kDefaultTenant}, {"web", "/", "/f/web"}, std::move(request),
                  http::Responder(std::make_shared<StreamExchange>(client)));
  http::RelayCall call = std::move(relays.calls.back());
  const auto to_handler = std::move(call.to_handler);
  to_handler(std::move(call), spec);
  EXPECT_TRUE(client->is_expected_whole) << "it is kept, so its time is bounded";
  const auto sink = client->sink;
  sink.on_bytes("abc");
  std::exchange(client->disconnect, nullptr)();
  sink.on_end();
  EXPECT_TRUE(relays.invoked.empty());
}

TEST_F(HandlerFrontendTest, AClientThatLeavesMeanwhileIsForgotten) {
  const auto client = send();
  std::exchange(client->disconnect, nullptr)();
  ASSERT_EQ(relays.forgotten.size(), 1u);
  EXPECT_TRUE(sink().client_is_gone());
  end("{}");
  EXPECT_FALSE(client->response.has_value());
}

TEST_F(HandlerFrontendTest, AStreamOfAFunctionThatBuffersIsAnsweredWhole) {
  const auto client = send();
  sink().begin(kIntegrationResponse);
  EXPECT_TRUE(sink().take(R"({"statusCode": 203})"));
  EXPECT_TRUE(sink().take(std::string(8, '\0') + "a"));
  EXPECT_TRUE(sink().take("b"));
  EXPECT_FALSE(client->response.has_value());
  end("");
  EXPECT_EQ(client->response->status, 203);
  EXPECT_EQ(client->body, "ab");
}

TEST_F(HandlerFrontendTest, AStreamLeavesAsItComes) {
  spec.url.invoke_mode = InvokeMode::kStream;
  const auto client = send();
  sink().begin("text/event-stream");
  EXPECT_TRUE(sink().take("one"));
  ASSERT_TRUE(client->response.has_value());
  EXPECT_EQ(client->response->status, 200);
  EXPECT_EQ(client->response->headers.get("Content-Type"), "text/event-stream");
  EXPECT_EQ(client->body, "one");
  bool has_room = false;
  sink().on_room([&] { has_room = true; });
  client->has_room = false;
  EXPECT_FALSE(sink().take("two"));
  EXPECT_FALSE(sink().client_is_gone());
  client->room();
  EXPECT_TRUE(has_room);
  EXPECT_FALSE(client->finished);
  end("");
  EXPECT_TRUE(client->finished);
}

TEST_F(HandlerFrontendTest, TheHeadOfAStreamLeavesBeforeItsBody) {
  spec.url.invoke_mode = InvokeMode::kStream;
  const auto client = send();
  sink().begin(kIntegrationResponse);
  EXPECT_TRUE(sink().take(R"({"statusCode": 404})" + std::string(8, '\0')));
  ASSERT_TRUE(client->response.has_value());
  EXPECT_EQ(client->response->status, 404);
  end("");
  EXPECT_TRUE(client->finished);
}

TEST_F(HandlerFrontendTest, AStreamThatFailsIsCutOff) {
  spec.url.invoke_mode = InvokeMode::kStream;
  const auto client = send();
  sink().begin("text/plain");
  EXPECT_TRUE(sink().take("half"));
  end("{}", Outcome::kFunctionError);
  EXPECT_FALSE(client->finished);
  EXPECT_TRUE(client->abandoned);
}

TEST_F(HandlerFrontendTest, AStreamThatFailsBeforeItsHeadIsAnswered) {
  spec.url.invoke_mode = InvokeMode::kStream;
  const auto client = send();
  sink().begin(kIntegrationResponse);
  EXPECT_TRUE(sink().take(R"({"statusCode")"));
  end("");
  EXPECT_EQ(client->response->status, 502);
  const auto malformed = send();
  sink().begin(kIntegrationResponse);
  EXPECT_FALSE(sink().take("no head" + std::string(8, '\0')));
  EXPECT_TRUE(sink().client_is_gone()) << "so that the runtime is told";
  end("");
  EXPECT_EQ(malformed->response->status, 502);
}

TEST_F(HandlerFrontendTest, AStreamThatIsWantedWholeHasTheLimitOfAnswers) {
  const auto client = send();
  sink().begin("text/plain");
  EXPECT_TRUE(sink().take(std::string(limits::kResponsePayload.count, 'x')));
  EXPECT_FALSE(sink().take("x"));
  end("");
  EXPECT_EQ(client->response->status, 502);
  EXPECT_THAT(client->body, HasSubstr("it has more than 6 MiB"));
}

TEST_F(HandlerFrontendTest, ASignedBodyIsThereAlready) {
  http::Request request = request_of("POST", "/f/web/", "signed", {{"Content-Length", "6"}});
  request.headers.add("Content-Type", "text/plain");
  const auto client = std::make_shared<StreamClient>();
  frontend.handle({.tenant = kDefaultTenant}, {"web", "/", "/f/web"}, std::move(request),
                  http::Responder(std::make_shared<StreamExchange>(client)), {.is_signed = true});
  http::RelayCall call = std::move(relays.calls.back());
  EXPECT_TRUE(call.is_signed);
  const auto to_handler = std::move(call.to_handler);
  to_handler(std::move(call), spec);
  ASSERT_EQ(relays.invoked.size(), 1u);
  EXPECT_EQ(json::parse(relays.invoked[0].request.payload)["body"], "signed");
}

TEST_F(HandlerFrontendTest, AnAnonymousClientLearnsNothingOfARefusal) {
  const auto client = send("", {.is_anonymous = true});
  end("{}", Outcome::kRejected, Error{ErrorCode::kResourceExhausted, "12 wait before it"});
  EXPECT_EQ(client->response->status, 503);
  EXPECT_THAT(client->body, Not(HasSubstr("12")));
  EXPECT_TRUE(client->response->headers.contains("Retry-After"));
}

}  // namespace
}  // namespace lambent::frontend
