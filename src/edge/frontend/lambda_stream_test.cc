// Answers in pieces, and the configuration of URLs, by Lambda's API.
#include "edge/frontend/lambda_stream.h"
#include "core/domain/cors.h"

#include <gmock/gmock.h>

#include "core/http/event_stream.h"
#include "edge/frontend/testing/lambda_testing.h"
#include "edge/frontend/testing/stream_client.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

const std::string kStream = "/2021-11-15/functions/f/response-streaming-invocations";
const std::string kUrl = "/2021-10-31/functions/f/url";

class LambdaStreamTest : public LambdaTest {
 protected:
  LambdaStreamTest() { create("f"); }

  std::shared_ptr<StreamClient> start_stream(const HeaderList& headers = {}) {
    auto client = std::make_shared<StreamClient>();
    frontend_.handle(Caller(), request_of("POST", kStream, "{}", headers),
                     http::Responder(std::make_shared<StreamExchange>(client)));
    return client;
  }
  http::AnswerSink& sink() { return *relays_.invoked.back().sink; }
  void end(Result<InvocationResult> result) {
    const auto done = std::move(relays_.invoked.back().done);
    done(std::move(result));
  }
  static InvocationResult ended(const std::string& payload, Outcome outcome = Outcome::kSucceeded) {
    InvocationResult result;
    result.outcome = outcome;
    result.payload = payload;
    result.log_tail = "words";
    return result;
  }
  // "type: payload" of each frame.
  static std::vector<std::string> frames(const std::string& bytes) {
    http::EventStreamDecoder decoder;
    decoder.feed(bytes);
    std::vector<std::string> list;
    for (;;) {
      auto frame = decoder.next();
      EXPECT_TRUE(frame.ok());
      if (!frame.ok() || !*frame) break;
      list.push_back(std::string((*frame)->header(":event-type")) + ": " + (*frame)->payload);
    }
    EXPECT_FALSE(decoder.has_rest());
    return list;
  }
  static json end_of(const std::string& bytes) {
    const std::string last = frames(bytes).back();
    return json::parse(last.substr(last.find(' ') + 1));
  }
};

TEST_F(LambdaStreamTest, PiecesAreFramesAndTheEndSaysHowItWent) {
  const auto client = start_stream({{"X-Amz-Log-Type", "Tail"}});
  EXPECT_FALSE(client->response.has_value());
  sink().begin("text/plain");
  ASSERT_TRUE(client->response.has_value());
  EXPECT_EQ(client->response->headers.get("Content-Type"), http::kEventStreamType);
  EXPECT_TRUE(sink().take("one"));
  EXPECT_TRUE(sink().take("two"));
  end(ended(""));
  EXPECT_TRUE(client->finished);
  const auto all = frames(client->body);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0], "PayloadChunk: one");
  EXPECT_EQ(all[1], "PayloadChunk: two");
  const json last = end_of(client->body);
  EXPECT_FALSE(last.contains("ErrorCode"));
  EXPECT_EQ(last["LogResult"], base64_encode("words"));
  EXPECT_EQ(last["LambentOutcome"]["x-lambent-start"], "warm");
}

TEST_F(LambdaStreamTest, AnAnswerThatDidNotStreamIsAPieceToo) {
  const auto client = start_stream();
  end(ended("{\"a\":1}"));
  EXPECT_EQ(frames(client->body)[0], "PayloadChunk: {\"a\":1}");
  EXPECT_FALSE(end_of(client->body).contains("LogResult"));
}

TEST_F(LambdaStreamTest, AFailureIsInTheEnd) {
  const auto client = start_stream();
  sink().begin("");
  EXPECT_TRUE(sink().take("half"));
  end(ended("{\"errorType\":\"Oops\"}", Outcome::kFunctionError));
  const json last = end_of(client->body);
  EXPECT_EQ(last["ErrorCode"], "Unhandled");
  EXPECT_EQ(last["ErrorDetails"], "{\"errorType\":\"Oops\"}");
  EXPECT_TRUE(client->finished);
}

TEST_F(LambdaStreamTest, WhatDidNotRunIsAnErrorOfTheCall) {
  auto client = start_stream();
  InvocationResult rejected;
  rejected.outcome = Outcome::kRejected;
  rejected.error = Error{ErrorCode::kResourceExhausted, "too much waits"};
  end(rejected);
  EXPECT_EQ(client->response->status, 429);
  client = start_stream();
  end(Error{ErrorCode::kNotFound, "no such function"});
  EXPECT_EQ(client->response->status, 404);
}

TEST_F(LambdaStreamTest, AClientThatLeavesIsToldToWhoStreams) {
  const auto client = start_stream();
  sink().begin("");
  bool told = false;
  sink().on_room([&] { told = true; });
  client->has_room = false;
  EXPECT_FALSE(sink().take("x"));
  std::exchange(client->disconnect, nullptr)();
  EXPECT_TRUE(told);
  EXPECT_TRUE(sink().client_is_gone());
  EXPECT_EQ(relays_.forgotten.size(), 1u);
  end(ended(""));
}

TEST_F(LambdaStreamTest, ItIsNoEvent) {
  expect_fault(call("POST", kStream, "{}", {{"X-Amz-Invocation-Type", "Event"}}), 400,
               "InvalidParameterValueException");
  EXPECT_EQ(call("POST", kStream, "{}", {{"X-Amz-Invocation-Type", "DryRun"}}).status, 204);
}

TEST_F(LambdaStreamTest, AUrlIsConfiguredByTags) {
  EXPECT_EQ(call("GET", kUrl).status, 404);
  EXPECT_EQ(call_json("PUT", kUrl, {{"AuthType", "NONE"}}).status, 404);
  const http::Response made =
      call_json("POST", kUrl, {{"AuthType", "NONE"}, {"InvokeMode", "RESPONSE_STREAM"}});
  EXPECT_EQ(made.status, 201);
  const json config = json::parse(made.body);
  EXPECT_EQ(config["FunctionUrl"], "http://localhost:8980/t/team/f/f/");
  EXPECT_EQ(config["AuthType"], "NONE");
  EXPECT_EQ(spec("f").url, (FunctionUrl{UrlAuth::kNone, InvokeMode::kStream}));
  EXPECT_EQ(call_json("POST", kUrl, {{"AuthType", "NONE"}}).status, 409);
  EXPECT_EQ(call_json("PUT", kUrl, {{"AuthType", "AWS_IAM"}}).status, 200);
  EXPECT_EQ(spec("f").url, (FunctionUrl{UrlAuth::kToken, InvokeMode::kStream}));
  EXPECT_EQ(json::parse(call("GET", kUrl).body)["FunctionUrl"], "http://localhost:8980/f/f/");
  EXPECT_EQ(json::parse(call("GET", kUrl + "s").body)["FunctionUrlConfigs"].size(), 1u);
  EXPECT_EQ(call("DELETE", kUrl).status, 204);
  EXPECT_EQ(spec("f").url, FunctionUrl());
  EXPECT_EQ(call("DELETE", kUrl).status, 404);
  EXPECT_EQ(json::parse(call("GET", kUrl + "s").body)["FunctionUrlConfigs"].size(), 0u);
}

TEST_F(LambdaStreamTest, AUrlSaysWhichPagesMayCall) {
  const json cors = {{"AllowOrigins", {"https://app.example.org"}},
                     {"AllowMethods", {"GET", "PUT"}},
                     {"AllowHeaders", {"x-a"}},
                     {"ExposeHeaders", {"x-b"}},
                     {"AllowCredentials", true},
                     {"MaxAge", 60}};
  const auto made = call_json("POST", kUrl, {{"AuthType", "NONE"}, {"Cors", cors}});
  ASSERT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(json::parse(made.body)["Cors"], cors);
  EXPECT_EQ(parse_cors(spec("f").url.cors)->allow_methods,
            (std::vector<std::string>{"GET", "PUT"}));
  // What is not given stays; an empty one is none.
  EXPECT_EQ(json::parse(call_json("PUT", kUrl, {{"AuthType", "AWS_IAM"}}).body)["Cors"], cors);
  EXPECT_FALSE(
      json::parse(call_json("PUT", kUrl, {{"Cors", json::object()}}).body).contains("Cors"));
  EXPECT_EQ(spec("f").url.cors, "");
}

TEST_F(LambdaStreamTest, ABadConfigurationOfAUrlIsRefused) {
  for (const json& bad :
       {json::object(), json{{"AuthType", "none"}}, json{{"AuthType", 1}},
        json{{"AuthType", "NONE"}, {"InvokeMode", "x"}}, json{{"AuthType", "NONE"}, {"Cors", "*"}},
        json{{"AuthType", "NONE"}, {"Cors", {{"AllowOrigins", "*"}}}},
        json{{"AuthType", "NONE"}, {"Cors", {{"AllowOrigins", {"a.example"}}}}},
        json{{"AuthType", "NONE"}, {"Cors", {{"Origins", {"*"}}}}}}) {
    expect_fault(call_json("POST", kUrl, bad), 400, "InvalidParameterValueException");
  }
  expect_fault(call_json("POST", kUrl + "?Qualifier=live", {{"AuthType", "NONE"}}), 400,
               "InvalidParameterValueException");
  EXPECT_EQ(spec("f").url, FunctionUrl());
}

}  // namespace
}  // namespace lambent::frontend
