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
                                     const std::string& path = "/v1/chat/completions?x=1",
                                     const std::string& type = "application/json") {
    auto client = begin(path, type);
    if (!client->sink.on_bytes) return client;
    const auto sink = client->sink;
    sink.on_bytes(body.substr(0, body.size() / 2));
    if (!client->finished) sink.on_bytes(body.substr(body.size() / 2));
    if (!client->finished) sink.on_end();
    return client;
  }
  std::shared_ptr<StreamClient> begin(const std::string& path, const std::string& type) {
    auto client = std::make_shared<StreamClient>();
    frontend.handle(
        {.tenant = kDefaultTenant},
        request_of("POST", path, "", {{"Transfer-Encoding", "chunked"}, {"Content-Type", type}}),
        http::Responder(std::make_shared<StreamExchange>(client)), false);
    return client;
  }
  // What the function gets of the last request, once it asks for it.
  struct Received {
    std::string body;
    bool has_ended = false;
  };
  std::shared_ptr<Received> receive() {
    auto received = std::make_shared<Received>();
    relays.calls.back().responder.stream()->receive(
        {.on_bytes = [received](std::string_view bytes) { received->body += bytes; },
         .on_end = [received] { received->has_ended = true; }});
    return received;
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
  EXPECT_FALSE(call.head.headers.contains("Transfer-Encoding"));
  EXPECT_TRUE(call.has_body);
  EXPECT_FALSE(call.to_handler);
  const auto received = receive();
  EXPECT_EQ(received->body, body);
  EXPECT_TRUE(received->has_ended);
  EXPECT_FALSE(client->held) << "it could not be seen to go";
}

TEST_F(OpenaiFrontendTest, ATenantHasAQuarterOfWhatMayBeginAtOnce) {
  const std::string piece(1 << 20, 'x');
  std::vector<std::shared_ptr<StreamClient>> clients;
  const auto fill = [&](TenantId tenant) {
    auto client = std::make_shared<StreamClient>();
    frontend.handle({.tenant = tenant},
                    request_of("POST", "/v1/responses", "", {{"Transfer-Encoding", "chunked"}}),
                    http::Responder(std::make_shared<StreamExchange>(client)), false);
    const auto sink = client->sink;
    sink.on_bytes(R"({"input": ")");
    for (int i = 0; i < 31 && !client->finished; ++i) sink.on_bytes(piece);
    clients.push_back(client);
    return client->finished ? client->response->status : 0;
  };
  int begun = 0;
  while (begun < 20 && fill(kDefaultTenant) == 0) ++begun;
  EXPECT_EQ(begun, 4);
  EXPECT_EQ(clients.back()->response->status, 503);
  EXPECT_EQ(fill(TenantId{7}), 0) << "another tenant's";
  for (const auto& client : clients) {
    if (client->disconnect) client->disconnect();
  }
  EXPECT_EQ(fill(kDefaultTenant), 0) << "what went is given back";
}

TEST_F(OpenaiFrontendTest, TheFunctionGetsAFormAsSoonAsItsModelIsThere) {
  const auto client = begin("/v1/audio/transcriptions", "multipart/form-data; boundary=XX");
  const auto sink = client->sink;
  const std::string fields =
      "--XX\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ntiny\r\n--XX\r\n";
  sink.on_bytes(fields.substr(0, 30));
  EXPECT_THAT(relays.calls, IsEmpty());
  EXPECT_TRUE(client->is_expected_whole) << "it is kept, so its time is bounded";
  sink.on_bytes(fields.substr(30));  // twice as much has come
  ASSERT_EQ(relays.calls.size(), 1u);
  EXPECT_FALSE(client->is_expected_whole) << "the rest is for the function to wait for";
  EXPECT_TRUE(client->held) << "nothing more is read until the function takes it";
  const auto received = receive();
  EXPECT_FALSE(client->held);
  EXPECT_EQ(received->body, fields);
  const std::string file(1 << 20, 'x');
  sink.on_bytes(file);
  EXPECT_EQ(received->body, fields + file);
  http::StreamedExchange& stream = *relays.calls.back().responder.stream();
  stream.hold(true);
  EXPECT_TRUE(client->held);
  sink.on_bytes("late");
  EXPECT_EQ(received->body.size(), fields.size() + file.size());
  sink.on_end();
  stream.hold(false);
  EXPECT_EQ(received->body, fields + file + "late");
  EXPECT_TRUE(received->has_ended);
}

TEST_F(OpenaiFrontendTest, AModelBehindALargeFileIsFoundAndOneTooFarBehindIsRefused) {
  const std::string file =
      "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n";
  const std::string model =
      "\r\n--XX\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ntiny\r\n--XX--\r\n";
  const std::string type = "multipart/form-data; boundary=XX";
  const std::string fits = file + std::string(8 << 20, '\r') + model;
  post(fits, "/v1/audio/translations", type);
  ASSERT_EQ(relays.calls.size(), 1u);
  EXPECT_EQ(receive()->body, fits);
  const auto client = begin("/v1/audio/translations", type);
  const auto sink = client->sink;
  const std::string piece(1 << 20, 'x');
  sink.on_bytes(file);
  for (uint64_t sent = 0; sent < kMostBeginning.count && !client->finished; sent += 1 << 20) {
    sink.on_bytes(piece);
  }
  ASSERT_TRUE(client->finished);
  EXPECT_EQ(client->response->status, 413);
  EXPECT_EQ(relays.calls.size(), 1u);
}

TEST_F(OpenaiFrontendTest, AClientThatLeavesBeforeItsModelIsThereLeavesNothing) {
  auto client = begin("/v1/responses", "application/json");
  const auto sink = client->sink;
  sink.on_bytes(R"({"input": "x", )");
  client->disconnect();
  EXPECT_TRUE(client->abandoned);
  sink.on_bytes(R"("model": "tiny"})");
  EXPECT_THAT(relays.calls, IsEmpty());
}

TEST_F(OpenaiFrontendTest, TheQueryNamesTheModelOfAWebSocket) {
  const auto ask = [this](const std::string& target) {
    auto client = std::make_shared<StreamClient>();
    frontend.handle(
        {.tenant = kDefaultTenant},
        request_of("GET", target, "", {{"Connection", "Upgrade"}, {"Upgrade", "websocket"}}),
        http::Responder(std::make_shared<StreamExchange>(client)), false);
    return client;
  };
  ask("/v1/realtime?model=org%2Flarge");
  ASSERT_EQ(relays.calls.size(), 1u);
  EXPECT_EQ(relays.calls.back().upgrade, "websocket");
  EXPECT_EQ(relays.calls.back().head.target, "/v1/realtime?model=org%2Flarge");
  EXPECT_EQ(ask("/v1/realtime")->response->status, 400);
}

TEST_F(OpenaiFrontendTest, WhatNoFunctionServesIsNotFound) {
  const auto client = post(R"({"model": "gpt"})");
  EXPECT_EQ(client->response->status, 404);
  EXPECT_EQ(json::parse(client->body)["error"]["code"], "model_not_found");
  EXPECT_EQ(post("what is this?")->response->status, 400);
  EXPECT_EQ(post(std::string(kMostBeginning.count + 1, ' '))->response->status, 413);
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
  result.error = Error{ErrorCode::kUnknown, "the program ended"};
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
