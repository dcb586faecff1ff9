// Requests to kernel functions by the Open Inference Protocol: what is invoked, and what the client
// gets.
#include "edge/frontend/kernel_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/domain/tensor_limits.h"
#include "edge/frontend/function_frontend.h"
#include "edge/frontend/limits.h"
#include "edge/frontend/testing/stream_client.h"
#include "edge/frontend/testing/testing.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// y = f(x, n), and z.
class KernelModelTest : public testing::Test {
 protected:
  KernelModelTest() {
    spec.name = {kDefaultTenant, "net"};
    spec.kind = FunctionKind::kKernel;
    relays.description =
        ModelDescription{.platform = "lambent_kernels",
                         .inputs = {{"x", DataType::kFp32, {1, 2}}, {"n", DataType::kInt32, {1}}},
                         .outputs = {{"y", DataType::kFp32, {2}}, {"z", DataType::kInt32, {1}}}};
  }
  std::shared_ptr<StreamClient> send(const std::string& method, const std::string& path,
                                     const std::string& body = "",
                                     const http::Headers& headers = {}) {
    auto client = std::make_shared<StreamClient>();
    http::Request request = request_of(method, path, "", {{"Content-Type", "application/json"}});
    for (const auto& [name, value] : headers.fields()) request.headers.add(name, value);
    if (!body.empty()) request.headers.add("Transfer-Encoding", "chunked");
    FunctionTarget target{"net", path, ""};
    target.protocol = Protocol::kInference;
    frontend.handle({.tenant = kDefaultTenant}, target, std::move(request),
                    http::Responder(std::make_shared<StreamExchange>(client)));
    http::RelayCall call = std::move(relays.calls.back());
    const auto to_kernels = std::move(call.to_kernels);
    if (narrow != nullptr) {
      narrow->handle(std::move(call), spec);
    } else {
      to_kernels(std::move(call), spec);
    }
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
  static std::string bytes_of(std::vector<float> floats, std::vector<int32_t> numbers) {
    std::string bytes(reinterpret_cast<const char*>(floats.data()), floats.size() * 4);
    return bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * 4);
  }

  FakeClock clock;
  loop::EventLoop loop{clock};
  SeededRandom random{1};
  FakeRelays relays;
  BodyCollector bodies;
  FunctionSpec spec;
  const HandlerFrontend::Dependencies uses{relays, bodies, loop, random, [](auto work, auto then) {
                                             work();
                                             then();
                                             return true;
                                           }};
  FunctionFrontend frontend{uses};
  KernelModelFrontend* narrow = nullptr;  // in place of the frontend's own
  // The inputs in another order than the model's.
  const std::string request =
      R"({"id":"7","inputs":[{"name":"n","datatype":"INT32","shape":[1],"data":[3]},)"
      R"({"name":"x","datatype":"FP32","shape":[1,2],"data":[1.5,2]}])";
};

TEST_F(KernelModelTest, ARequestIsTheBytesOfItsInputsAndTheAnswerThoseOfTheOutputs) {
  const auto client = send("POST", "/v2/models/net/infer", request + "}");
  ASSERT_EQ(relays.invoked.size(), 1u);
  EXPECT_EQ(relays.invoked[0].request.payload, bytes_of({1.5, 2}, {3}));
  EXPECT_EQ(relays.invoked[0].request.content_type, "application/x-lambent-tensors");
  EXPECT_EQ(relays.invoked[0].request.function.name, "net");
  end(bytes_of({4, 5}, {6}));
  ASSERT_TRUE(client->response.has_value());
  EXPECT_EQ(client->response->status, 200);
  const json answer = json::parse(client->body);
  EXPECT_EQ(answer["model_name"], "net");
  EXPECT_EQ(answer["id"], "7");
  EXPECT_EQ(answer["outputs"][0]["data"], json({4.0, 5.0}));
  EXPECT_EQ(answer["outputs"][1]["data"], json({6}));
}

TEST_F(KernelModelTest, BodiesThatAreHeldTogetherHaveABoundOnceTheyAreDecompressed) {
  KernelModelFrontend small(uses, Bytes::kib(100));
  narrow = &small;
  http::Response packed;
  packed.body = request + "}" + std::string(60'000, ' ');
  inference::compress(packed, "gzip");
  http::Headers headers;
  headers.add("Content-Encoding", "gzip");
  const auto ask = [&] { return send("POST", "/v2/models/net/infer", packed.body, headers); };
  const auto first = ask();
  ASSERT_EQ(relays.invoked.size(), 1u);
  const auto second = ask();
  ASSERT_TRUE(second->response.has_value());
  EXPECT_EQ(second->response->status, 429);
  EXPECT_THAT(second->body, HasSubstr("once they are decompressed; try again later"));
  // A plain one takes no part of it.
  send("POST", "/v2/models/net/infer", request + "}");
  EXPECT_EQ(relays.invoked.size(), 2u);
  end(bytes_of({4, 5}, {6}));
  relays.invoked.pop_back();
  end(bytes_of({4, 5}, {6}));
  EXPECT_EQ(first->response->status, 200);
  relays.invoked.clear();
  ask();
  EXPECT_EQ(relays.invoked.size(), 1u);
}

// x and y are megabytes.
class LargeTensorTest : public KernelModelTest {
 protected:
  explicit LargeTensorTest(int64_t elements = 3 << 20) {
    relays.description = ModelDescription{.platform = "lambent_kernels",
                                          .inputs = {{"x", DataType::kFp32, {elements}}},
                                          .outputs = {{"y", DataType::kFp32, {elements}}}};
  }
  // As bytes; the answer, too, if `is_binary`.
  std::shared_ptr<StreamClient> ask(const std::string& content, bool is_binary = true) {
    const json input = {{"name", "x"},
                        {"datatype", "FP32"},
                        {"shape", json::array({content.size() / 4})},
                        {"parameters", {{"binary_data_size", content.size()}}}};
    const std::string text =
        json{{"inputs", json::array({input})}, {"parameters", {{"binary_data_output", is_binary}}}}
            .dump();
    http::Headers headers;
    headers.add("Inference-Header-Content-Length", std::to_string(text.size()));
    return send("POST", "/v2/models/net/infer", text + content, headers);
  }
  const std::string content = std::string(12 << 20, 'x');
};

TEST_F(LargeTensorTest, TensorsMayBeLongerThanAnEvent) {
  const auto client = ask(content);
  ASSERT_EQ(relays.invoked.size(), 1u);
  EXPECT_EQ(relays.invoked[0].request.payload, content);
  end(content);
  ASSERT_TRUE(client->response.has_value());
  EXPECT_EQ(client->response->status, 200);
  EXPECT_TRUE(client->body.ends_with(content));
}

TEST_F(LargeTensorTest, ThatAreTooLongAreRefused) {
  const auto client = ask(std::string(limits::kTensorPayload.count, 'x'));
  EXPECT_EQ(client->response->status, 413);
  EXPECT_THAT(client->body, HasSubstr("more than 64 MiB"));
  EXPECT_TRUE(relays.invoked.empty());
}

TEST_F(LargeTensorTest, OfJsonThereIsLess) {
  const auto answer = ask(content, false);
  EXPECT_EQ(answer->response->status, 400);
  EXPECT_THAT(answer->body, HasSubstr("ask for them as binary data"));
  const std::string text(limits::kEventBody.count + 1, ' ');
  EXPECT_EQ(send("POST", "/v2/models/net/infer", text)->response->status, 413);
  http::Headers headers;
  headers.add("Inference-Header-Content-Length", std::to_string(text.size()));
  const auto client = send("POST", "/v2/models/net/infer", text, headers);
  EXPECT_THAT(client->body, HasSubstr("Send tensors as binary data behind it"));
  EXPECT_TRUE(relays.invoked.empty());
}

TEST_F(LargeTensorTest, OfAnswersThatAreNotReadThereIsABound) {
  KernelModelFrontend small(uses, limits::kDecompressedBodies, Bytes::mib(30));
  narrow = &small;
  relays.description->inputs[0].shape = {1};
  const auto answered = [this] {
    const auto client = send("POST", "/v2/models/net/infer",
                             R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}],)"
                             R"("parameters":{"binary_data_output":true}})");
    end(content);
    return client;
  };
  auto first = answered();
  const auto second = answered();
  EXPECT_EQ(first->response->status, 200);
  EXPECT_EQ(second->response->status, 200);
  EXPECT_EQ(answered()->response->status, 503);
  first->response.reset();
  EXPECT_EQ(answered()->response->status, 200);
}

TEST_F(LargeTensorTest, OfRequestsThatWaitThereIsABound) {
  KernelModelFrontend small(uses, limits::kDecompressedBodies, Bytes::mib(30));
  narrow = &small;
  relays.description->inputs[0].shape = {-1, 3 << 20};
  relays.description->outputs = {{"y", DataType::kFp32, {-1, 1}}};
  relays.description->most_elements = 2;
  relays.description->batches = BatchTimes{};
  const json input = {{"name", "x"},
                      {"datatype", "FP32"},
                      {"shape", {1, 3 << 20}},
                      {"parameters", {{"binary_data_size", content.size()}}}};
  const std::string text = json{{"inputs", json::array({input})}}.dump();
  http::Headers headers;
  headers.add("Inference-Header-Content-Length", std::to_string(text.size()));
  const auto queued = [&] { return send("POST", "/v2/models/net/infer", text + content, headers); };
  // One runs, and two wait.
  for (int i = 0; i < 3; ++i) ASSERT_FALSE(queued()->response.has_value());
  EXPECT_EQ(queued()->response->status, 503);
  end(bytes_of({1}, {}));
  EXPECT_FALSE(queued()->response.has_value()) << "those two run";
}

TEST_F(KernelModelTest, AnOutputThatIsAskedForComesAlone) {
  const auto client =
      send("POST", "/v2/models/net/versions/1/infer", request + R"(,"outputs":[{"name":"z"}]})");
  end(bytes_of({4, 5}, {6}));
  const json answer = json::parse(client->body);
  ASSERT_EQ(answer["outputs"].size(), 1u);
  EXPECT_EQ(answer["outputs"][0]["name"], "z");
}

TEST_F(KernelModelTest, WhatTheModelIsIsToldWithoutAnInvocation) {
  EXPECT_THAT(send("GET", "/v2/models/net")->body, HasSubstr(R"("platform":"lambent_kernels")"));
  EXPECT_THAT(send("GET", "/v2/models/net/ready")->body, HasSubstr(R"("ready":true)"));
  EXPECT_THAT(send("GET", "/v2/models/net/config")->body, HasSubstr("TYPE_FP32"));
  EXPECT_EQ(send("POST", "/v2/repository/models/net/load")->response->status, 200);
  EXPECT_TRUE(relays.invoked.empty());
}

TEST_F(KernelModelTest, AVersionAnswersAsItself) {
  spec.name.name = "net:3";
  const auto client = send("POST", "/v2/models/net/versions/3/infer", request + "}");
  end(bytes_of({4, 5}, {6}));
  const json answer = json::parse(client->body);
  EXPECT_EQ(answer["model_name"], "net");
  EXPECT_EQ(answer["model_version"], "3");
  EXPECT_EQ(relays.invoked[0].request.function.name, "net:3");
  EXPECT_EQ(send("GET", "/v2/models/net/versions/2")->response->status, 404);
  EXPECT_EQ(json::parse(send("GET", "/v2/models/net")->body)["versions"], json({"3"}));
}

TEST_F(KernelModelTest, StatisticsCountWhatWasAnsweredAndWhatFailed) {
  send("POST", "/v2/models/net/infer", request + "}");
  end(bytes_of({4, 5}, {6}));
  send("POST", "/v2/models/net/infer", "{}");
  const json stats =
      json::parse(send("GET", "/v2/models/net/stats")->body)["model_stats"][0]["inference_stats"];
  EXPECT_EQ(stats["success"]["count"], 1);
  EXPECT_EQ(stats["fail"]["count"], 1);
}

TEST_F(KernelModelTest, WhatIsWrongHasTheFormOfTheProtocol) {
  const auto status_of = [this](const std::string& method, const std::string& path,
                                const std::string& body = "") {
    const auto client = send(method, path, body);
    EXPECT_TRUE(json::parse(client->body)["error"].is_string()) << path;
    return client->response->status;
  };
  EXPECT_EQ(status_of("GET", "/v2/models/net/versions/9"), 404);
  EXPECT_EQ(status_of("GET", "/v2/models/net/nothing"), 404);
  EXPECT_EQ(status_of("GET", "/v2/models/net/infer"), 405);
  EXPECT_EQ(status_of("POST", "/v2/models/net/infer", "{}"), 400);
  EXPECT_EQ(status_of("POST", "/v2/models/net/infer", "no JSON"), 400);
  EXPECT_TRUE(relays.invoked.empty());
  relays.description = Error{ErrorCode::kInvalidArgument, "no graph"};
  EXPECT_EQ(status_of("GET", "/v2/models/net"), 400);
}

TEST_F(KernelModelTest, AnInvocationThatFailsIsAnError) {
  const auto failed = send("POST", "/v2/models/net/infer", request + "}");
  end("", Outcome::kFunctionError, Error{ErrorCode::kInternal, "a kernel faulted"});
  EXPECT_EQ(failed->response->status, 502);
  EXPECT_THAT(failed->body, HasSubstr("a kernel faulted"));
  // Of kernels that answer less than they say, no byte is made up.
  const auto cut = send("POST", "/v2/models/net/infer", request + "}");
  end(bytes_of({4}, {}));
  EXPECT_EQ(cut->response->status, 500);
}

TEST_F(KernelModelTest, RawBytesHaveNoFormInTheProtocol) {
  relays.description->inputs[0].type = DataType::kBytes;
  const auto client = send("POST", "/v2/models/net/infer", request + "}");
  EXPECT_EQ(client->response->status, 501);
  EXPECT_TRUE(relays.invoked.empty());
}

TEST_F(KernelModelTest, AClientThatGoesAwayIsForgotten) {
  const auto client = send("POST", "/v2/models/net/infer", request + "}");
  client->disconnect();
  EXPECT_EQ(relays.forgotten.size(), 1u);
  end(bytes_of({4, 5}, {6}));
}

// y = f(x) for up to eight elements, which are put together.
class KernelBatchTest : public KernelModelTest {
 protected:
  KernelBatchTest() {
    relays.description = ModelDescription{.platform = "lambent_kernels",
                                          .inputs = {{"x", DataType::kFp32, {-1, 1}}},
                                          .outputs = {{"y", DataType::kFp32, {-1, 1}}},
                                          .most_elements = 8,
                                          .batches = BatchTimes{}};
  }
  std::shared_ptr<StreamClient> ask(const std::vector<float>& values) {
    const json input = {
        {"name", "x"}, {"datatype", "FP32"}, {"shape", {values.size(), 1}}, {"data", values}};
    return send("POST", "/v2/models/net/infer", json{{"inputs", json::array({input})}}.dump());
  }
  static json data_of(const std::shared_ptr<StreamClient>& client) {
    return json::parse(client->body)["outputs"][0]["data"];
  }
};

TEST_F(KernelBatchTest, WhatCameDuringARunIsOneInvocation) {
  const auto first = ask({1}), second = ask({2}), third = ask({3, 4});
  ASSERT_EQ(relays.invoked.size(), 1u) << "nothing waits for others while the model is idle";
  EXPECT_EQ(relays.invoked[0].request.payload, bytes_of({1}, {}));
  end(bytes_of({10}, {}));
  EXPECT_EQ(data_of(first), json({10.0}));
  ASSERT_EQ(relays.invoked.size(), 2u);
  EXPECT_EQ(relays.invoked[1].request.payload, bytes_of({2, 3, 4}, {}));
  EXPECT_EQ(relays.invoked[1].elements, 3u) << "calls of workflows may join them";
  end(bytes_of({20, 30, 40}, {}));
  EXPECT_EQ(data_of(second), json({20.0}));
  EXPECT_EQ(data_of(third), json({30.0, 40.0}));
  EXPECT_EQ(json::parse(third->body)["outputs"][0]["shape"], json({2, 1}));
  const json stats = json::parse(send("GET", "/v2/models/net/stats")->body)["model_stats"][0];
  EXPECT_EQ(stats["inference_count"], 4);
  EXPECT_EQ(stats["execution_count"], 2);
  EXPECT_EQ(stats["batch_stats"][1]["batch_size"], 3);
}

TEST_F(KernelBatchTest, ARequestWaitsForOthersAsLongAsItIsTold) {
  relays.description->batches = BatchTimes{.most_wait = milliseconds(5)};
  ask({1});
  ask({2});
  EXPECT_TRUE(relays.invoked.empty());
  clock.advance(milliseconds(5));
  loop.run_once(milliseconds(0));
  ASSERT_EQ(relays.invoked.size(), 1u);
  EXPECT_EQ(relays.invoked[0].request.payload, bytes_of({1, 2}, {}));
  end(bytes_of({1, 2}, {}));
}

TEST_F(KernelBatchTest, AllThatTheLargestVariantHoldsRunsTogether) {
  // Sixteen images of 224 x 224.
  const int64_t pixels = 3 * 224 * 224;
  relays.description->inputs = {{"x", DataType::kFp32, {-1, pixels}}};
  relays.description->most_elements = 16;
  const std::string content(pixels * 4, 'x');
  const json input = {{"name", "x"},
                      {"datatype", "FP32"},
                      {"shape", {1, pixels}},
                      {"parameters", {{"binary_data_size", content.size()}}}};
  const std::string text = json{{"inputs", json::array({input})}}.dump();
  http::Headers headers;
  headers.add("Inference-Header-Content-Length", std::to_string(text.size()));
  for (int i = 0; i < 17; ++i) send("POST", "/v2/models/net/infer", text + content, headers);
  ASSERT_EQ(relays.invoked.size(), 1u);
  end(bytes_of({1}, {}));
  ASSERT_EQ(relays.invoked.size(), 2u);
  EXPECT_EQ(relays.invoked[1].request.payload.size(), 16 * content.size());
  end(bytes_of(std::vector<float>(16, 1), {}));
}

TEST_F(KernelBatchTest, MoreThanTheLargestVariantIsRefused) {
  const auto client = ask(std::vector<float>(9, 1));
  EXPECT_EQ(client->response->status, 400);
  EXPECT_THAT(client->body,
              HasSubstr("input 'x': its first dimension is 9; this model takes at most 8"));
  EXPECT_TRUE(relays.invoked.empty());
}

TEST_F(KernelBatchTest, ARunThatFailsIsToldToAllAndTheNextOneBegins) {
  const auto first = ask({1}), second = ask({2}), third = ask({3});
  end(bytes_of({1}, {}));
  end("", Outcome::kFunctionError, Error{ErrorCode::kInternal, "a kernel faulted"});
  EXPECT_EQ(second->response->status, 502);
  EXPECT_EQ(third->response->status, 502);
  const auto fourth = ask({4});
  loop.run_once(milliseconds(0));
  ASSERT_EQ(relays.invoked.size(), 3u);
  end(bytes_of({4}, {}));
  EXPECT_EQ(data_of(fourth), json({4.0}));
}

TEST_F(KernelBatchTest, ABatchIsForgottenWhenAllWhoAskedHaveGone) {
  ask({0});
  const auto first = ask({1}), second = ask({2});
  end(bytes_of({0}, {}));
  first->disconnect();
  EXPECT_TRUE(relays.forgotten.empty());
  second->disconnect();
  EXPECT_EQ(relays.forgotten.size(), 1u);
  end(bytes_of({1, 2}, {}));
}

TEST_F(KernelBatchTest, RequestsForOtherCodeAreNotPutWithThose) {
  const auto first = ask({1}), old = ask({2});
  spec.code_sha256 = "other";
  const auto renewed = ask({3});
  ASSERT_EQ(relays.invoked.size(), 2u) << "the queue of the new code is idle";
  end(bytes_of({3}, {}));
  EXPECT_EQ(data_of(renewed), json({3.0}));
  const auto done = std::move(relays.invoked[0].done);
  InvocationResult result;
  result.outcome = Outcome::kSucceeded;
  result.payload = bytes_of({1}, {});
  done(result);
  ASSERT_EQ(relays.invoked.size(), 3u);
  end(bytes_of({2}, {}));
  EXPECT_EQ(data_of(old), json({2.0}));
}

TEST_F(KernelBatchTest, TheConfigurationTellsTheLargestBatch) {
  const json config = json::parse(send("GET", "/v2/models/net/config")->body);
  EXPECT_EQ(config["max_batch_size"], 8);
  EXPECT_EQ(config["input"][0]["dims"], json({1}));
  EXPECT_EQ(json::parse(send("GET", "/v2/models/net")->body)["inputs"][0]["shape"], json({-1, 1}));
}

}  // namespace
}  // namespace lambent::frontend
