// OpenAI's API by the frontend: which function gets a request, and what is answered without one.
#include "edge/frontend/openai_frontend.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/domain/openai_models.h"
#include "edge/frontend/testing/stream_client.h"
#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

class OpenaiFrontendTest : public testing::Test {
 protected:
  OpenaiFrontendTest() { deploy("chat", "tiny,org/large", seconds(100)); }

  void deploy(const std::string& name, const std::string& models, Duration at) {
    FunctionSpec spec;
    spec.name = {kDefaultTenant, name};
    spec.kind = FunctionKind::kHttp;
    spec.tags[std::string(kOpenaiModelsTag)] = models;
    spec.last_modified = at;
    service.functions[spec.name] = spec;
  }
  // Its body arrives in two pieces.
  std::shared_ptr<StreamClient> post(const std::string& body,
                                     const std::string& path = "/v1/chat/completions?x=1") {
    auto client = std::make_shared<StreamClient>();
    frontend.handle({.tenant = kDefaultTenant},
                    request_of("POST", path, "", {{"Transfer-Encoding", "chunked"}}),
                    http::Responder(std::make_shared<StreamExchange>(client)), false);
    if (!client->sink.on_bytes) return client;
    const auto sink = client->sink;
    sink.on_bytes(body.substr(0, body.size() / 2));
    if (!client->finished) sink.on_bytes(body.substr(body.size() / 2));
    if (!client->finished) sink.on_end();
    return client;
  }
  std::string function_of_next(const std::string& model) {
    const size_t before = relays.calls.size();
    post(json({{"model", model}}).dump());
    return relays.calls.size() == before ? "" : relays.calls.back().function.name;
  }
  http::Response get(const std::string& path, const std::string& method = "GET") {
    auto seen = std::make_shared<Exchanged>();
    frontend.handle({.tenant = kDefaultTenant}, request_of(method, path), responder_to(seen),
                    false);
    return seen->response.value_or(http::Response{.status = 0});
  }

  FakeClock clock;
  loop::EventLoop loop{clock};
  SeededRandom random{1};
  FakeService service;
  FakeRelays relays;
  BodyCollector bodies;
  FunctionFrontend functions{{relays, bodies, loop, random, [](auto work, auto then) {
                                work();
                                then();
                                return true;
                              }}};
  OpenaiFrontend frontend{
      {service, functions, bodies, clock, [](TenantId) { return std::string("team"); }}};
};

TEST_F(OpenaiFrontendTest, TheFunctionThatServesTheModelGetsTheRequestWhole) {
  const std::string body = R"({"model": "org/large", "stream": true})";
  const auto client = post(body);
  ASSERT_EQ(relays.calls.size(), 1u);
  const http::RelayCall& call = relays.calls.back();
  EXPECT_EQ(call.function.name, "chat");
  EXPECT_EQ(call.head.method, "POST");
  EXPECT_EQ(call.head.target, "/v1/chat/completions?x=1");
  EXPECT_EQ(call.head.body, body);
  EXPECT_EQ(call.head.headers.get("Content-Length"), std::to_string(body.size()));
  EXPECT_FALSE(call.head.headers.contains("Transfer-Encoding"));
  EXPECT_FALSE(call.has_body) << "nothing more of it comes";
  EXPECT_FALSE(call.to_handler);
}

TEST_F(OpenaiFrontendTest, WhatNoFunctionServesIsNotFound) {
  const auto client = post(R"({"model": "gpt"})");
  EXPECT_EQ(client->response->status, 404);
  EXPECT_EQ(json::parse(client->body)["error"]["code"], "model_not_found");
  EXPECT_EQ(post("what is this?")->response->status, 400);
  EXPECT_EQ(post(std::string(limits::kEventBody.count + 1, ' '))->response->status, 413);
  EXPECT_EQ(get("/v1/completions").status, 405);
  EXPECT_THAT(relays.calls, IsEmpty());
}

TEST_F(OpenaiFrontendTest, AFunctionServesFromItsDeploymentToItsRemoval) {
  EXPECT_EQ(function_of_next("new"), "");
  deploy("more", "new", seconds(200));
  EXPECT_EQ(function_of_next("new"), "more") << "at once, though the list was read a moment ago";
  service.functions.erase({kDefaultTenant, "more"});
  EXPECT_EQ(function_of_next("new"), "");
}

TEST_F(OpenaiFrontendTest, TheFunctionThatWasChangedLastServesAModelThatSeveralName) {
  EXPECT_EQ(function_of_next("tiny"), "chat");
  deploy("better", "tiny", seconds(200));
  clock.advance(seconds(1));
  EXPECT_EQ(function_of_next("tiny"), "better");
  service.functions.erase({kDefaultTenant, "better"});
  EXPECT_EQ(function_of_next("tiny"), "chat");
}

TEST_F(OpenaiFrontendTest, AnotherTenantsModelsAreNotThere) {
  service.functions.clear();
  deploy("mine", "tiny", seconds(1));
  FunctionSpec spec = service.functions.begin()->second;
  service.functions.clear();
  spec.name.tenant = TenantId{7};
  service.functions[spec.name] = spec;
  EXPECT_EQ(function_of_next("tiny"), "");
  EXPECT_THAT(json::parse(get("/v1/models").body)["data"], IsEmpty());
}

TEST_F(OpenaiFrontendTest, ModelsAreListedAndAskedForByName) {
  const json list = json::parse(get("/v1/models").body);
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 2u);
  const json large = {
      {"id", "org/large"}, {"object", "model"}, {"created", 100}, {"owned_by", "team"}};
  EXPECT_EQ(list["data"][0], large);
  EXPECT_EQ(json::parse(get("/v1/models/org/large").body), large);
  EXPECT_EQ(json::parse(get("/v1/models/org%2Flarge").body), large);
  EXPECT_EQ(get("/v1/models/org").status, 404);
  EXPECT_EQ(get("/v1/models/%zz").status, 400);
  EXPECT_EQ(get("/v1/models/tiny", "DELETE").status, 405);
}

TEST_F(OpenaiFrontendTest, AFailureIsToldInTheFormOfTheApi) {
  post(R"({"model": "tiny"})");
  InvocationResult result;
  result.outcome = Outcome::kFunctionError;
  result.error = Error{ErrorCode::kInternal, "the program ended"};
  const http::Response response = relays.calls.back().answer_of(result);
  EXPECT_EQ(response.status, 502);
  const json error = json::parse(response.body)["error"];
  EXPECT_EQ(error["type"], "server_error");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("lambent logs chat"));
  result.outcome = Outcome::kRejected;
  result.error = Error{ErrorCode::kResourceExhausted, "too much waits"};
  const http::Response refused = relays.calls.back().answer_of(result);
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.get("Retry-After"), "1");
}

}  // namespace
}  // namespace lambent::frontend
