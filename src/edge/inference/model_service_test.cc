#include "edge/inference/model_service.h"

#include <gmock/gmock.h>

#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>

#include "core/http/testing/server_test_support.h"
#include "edge/inference/compression.h"

namespace lambent::inference {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Doubles numbers; refuses those below zero.
class Doubler final : public ModelEngine {
 public:
  const ModelDescription& description() const override { return description_; }
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs,
                                  std::span<const std::string> outputs) override {
    if (turn != nullptr) turn->lock(), turn->unlock();
    std::vector<Tensor> made;
    for (const std::string& name : outputs) {
      std::string content(inputs[0].content);
      for (size_t at = 0; at < content.size(); at += sizeof(float)) {
        float value = 0;
        memcpy(&value, content.data() + at, sizeof value);
        if (value < 0) return Error{ErrorCode::kInvalidArgument, "no number below zero"};
        value *= 2;
        memcpy(content.data() + at, &value, sizeof value);
      }
      Tensor tensor;
      tensor.name = name;
      tensor.type = name == "half" ? DataType::kFp16 : DataType::kFp32;
      tensor.shape = inputs[0].shape;
      tensor.own(std::move(content));
      made.push_back(std::move(tensor));
    }
    return made;
  }

  std::mutex* turn = nullptr;  // who has it lets runs wait

 private:
  const ModelDescription description_{
      .platform = "doubler",
      .inputs = {{"x", DataType::kFp32, {-1}}},
      .outputs = {{"y", DataType::kFp32, {-1}}, {"half", DataType::kFp16, {-1}}}};
};

const std::string kOnlyY = R"(,"outputs":[{"name":"y"}])";

class ModelServiceTest : public http::ServerTest {
 protected:
  void SetUp() override {
    service_ = std::make_unique<ModelService>(
        engine_, loop,
        ModelServiceOptions{
            .function = "double", .version = "7", .most_decompressed = Bytes::kib(256)});
    start({}, [this](http::Request request, http::Responder responder) {
      service_->handle(std::move(request), std::move(responder));
    });
  }
  void TearDown() override {
    server.reset();
    service_.reset();
  }

  struct Answer {
    int status = 0;
    std::string head;
    std::string body;
  };
  Answer ask(const std::string& method, const std::string& target, const std::string& body = "",
             const std::string& headers = "") {
    http::RawClient client = connect();
    client.send(method + " " + target + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + headers +
                "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    wait_for_end(client);
    const size_t end = client.received.find("\r\n\r\n");
    return {std::stoi(client.received.substr(9, 3)), client.received.substr(0, end),
            client.received.substr(end + 4)};
  }
  static std::string request_for(const std::string& data, const std::string& more = "") {
    const json values = json::parse(data);
    return R"({"inputs":[{"name":"x","datatype":"FP32","shape":[)" + std::to_string(values.size()) +
           R"(],"data":)" + data + "}]" + more + "}";
  }

  Doubler engine_;
  std::unique_ptr<ModelService> service_;
};

TEST_F(ModelServiceTest, AModelTellsWhatItTakesAndGives) {
  const json metadata = json::parse(ask("GET", "/v2/models/double").body);
  EXPECT_EQ(metadata["name"], "double");
  EXPECT_EQ(metadata["versions"], json::parse(R"(["1"])"));
  EXPECT_EQ(metadata["inputs"], json::parse(R"([{"name":"x","datatype":"FP32","shape":[-1]}])"));
  EXPECT_EQ(ask("GET", "/v2/models/double/versions/1").status, 200);
  EXPECT_EQ(ask("GET", "/v2/models/double/ready").status, 200);
  EXPECT_EQ(ask("GET", "/v2/models/double:prod/ready").status, 200);
  EXPECT_EQ(ask("GET", "/v2/health/ready").status, 200);
  EXPECT_EQ(json::parse(ask("GET", "/v2").body)["version"], "7");
  const json configuration = json::parse(ask("GET", "/v2/models/double/config").body);
  EXPECT_EQ(configuration["input"][0]["data_type"], "TYPE_FP32");
  EXPECT_EQ(configuration["max_batch_size"], 0);
}

TEST(ModelIdentity, IsAVersionOrWhatWasDeployedLast) {
  const ModelIdentity only = model_identity("m", "");
  EXPECT_EQ(only.name, "m");
  EXPECT_EQ(only.version, "1");
  EXPECT_TRUE(only.versions.empty());
  const ModelIdentity third = model_identity("m:3", "1,3,12");
  EXPECT_EQ(third.name, "m");
  EXPECT_EQ(third.version, "3");
  EXPECT_EQ(third.versions, (std::vector<std::string>{"1", "3", "12"}));
  EXPECT_EQ(model_identity("m", "1,3").version, "$LATEST");
  EXPECT_NE(metadata_json(third, {}).find(R"("versions":["1","3","12"])"), std::string::npos);
}

TEST_F(ModelServiceTest, OtherModelsVersionsAndPathsAreNotFound) {
  for (const char* path : {"/v2/models/other", "/v2/models/double/versions/2",
                           "/v2/models/double/nothing", "/v1", "/", "/v2/models"}) {
    const Answer answer = ask("GET", path);
    EXPECT_EQ(answer.status, 404) << path;
    EXPECT_TRUE(json::parse(answer.body)["error"].is_string()) << path;
  }
  EXPECT_EQ(ask("POST", "/v2/models/other/infer", "{}").status, 404);
  EXPECT_EQ(ask("POST", "/v2/models/double/versions/2/infer", "{}").status, 404);
  const Answer posted = ask("POST", "/v2/models/double", "{}");
  EXPECT_EQ(posted.status, 405);
  EXPECT_NE(posted.head.find("\r\nAllow: GET, HEAD"), std::string::npos) << posted.head;
  const Answer got = ask("GET", "/v2/models/double/infer");
  EXPECT_EQ(got.status, 405);
  EXPECT_NE(got.head.find("\r\nAllow: POST"), std::string::npos) << got.head;
  EXPECT_EQ(ask("POST", "/v2/health/infer", request_for("[1]", kOnlyY)).status, 404);
  EXPECT_EQ(ask("POST", "/v2/repository/models/double/load", "{}").status, 200);
  EXPECT_EQ(ask("POST", "/v2/repository/models/other/load", "{}").status, 404);
  EXPECT_EQ(service_->statistics().success.count, 0u);
}

TEST_F(ModelServiceTest, AnInferenceIsAnsweredAsJson) {
  const Answer answer =
      ask("POST", "/v2/models/double/infer", request_for("[1,2.5]", kOnlyY + R"(,"id":"a")"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(json::parse(answer.body), json::parse(R"({"model_name":"double","model_version":"1",
      "id":"a","outputs":[{"name":"y","datatype":"FP32","shape":[2],"data":[2,5]}]})"));
}

TEST_F(ModelServiceTest, AnInferenceIsAnsweredAsBytes) {
  const Answer answer = ask("POST", "/v2/models/double/versions/1/infer",
                            request_for("[1,2.5]", R"(,"parameters":{"binary_data_output":true})"));
  EXPECT_EQ(answer.status, 200);
  const size_t at = answer.head.find("Inference-Header-Content-Length: ");
  ASSERT_NE(at, std::string::npos);
  const size_t length = std::stoul(answer.head.substr(at + 33));
  const json head = json::parse(answer.body.substr(0, length));
  EXPECT_EQ(head["outputs"][0]["parameters"]["binary_data_size"], 8);
  float values[2];
  ASSERT_EQ(answer.body.size(), length + 16);
  memcpy(values, answer.body.data() + length, sizeof values);
  EXPECT_EQ(values[0], 2);
  EXPECT_EQ(values[1], 5);
}

TEST_F(ModelServiceTest, WhatTheModelRefusesIsAnErrorOfTheClient) {
  const Answer refused = ask("POST", "/v2/models/double/infer", request_for("[-1]", kOnlyY));
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(json::parse(refused.body)["error"], "no number below zero");
  EXPECT_EQ(ask("POST", "/v2/models/double/infer", "{}").status, 400);
  const Answer half = ask("POST", "/v2/models/double/infer", request_for("[1]"));
  EXPECT_EQ(half.status, 400);
  EXPECT_THAT(half.body, HasSubstr("ask for binary data"));
  EXPECT_EQ(ask("POST", "/v2/models/double/infer", request_for("[1]", kOnlyY),
                "Inference-Header-Content-Length: x\r\n")
                .status,
            400);
  EXPECT_EQ(service_->statistics().fail.count, 4u);
  // Only of what succeeds is it told where the time went.
  EXPECT_EQ(service_->statistics().success.count, 0u);
  EXPECT_EQ(service_->statistics().queue.count, 0u);
  EXPECT_EQ(service_->statistics().input.count, 0u);
}

TEST_F(ModelServiceTest, BodiesMayBeCompressedBothWays) {
  http::Response packed;
  packed.body = request_for("[4]", kOnlyY);
  compress(packed, "gzip");
  const Answer answer = ask("POST", "/v2/models/double/infer", packed.body,
                            "Content-Encoding: gzip\r\nAccept-Encoding: deflate\r\n");
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.head, HasSubstr("Content-Encoding: deflate"));
  const std::string plain = decompress(answer.body, "deflate", Bytes::kib(64)).value();
  EXPECT_EQ(json::parse(plain)["outputs"][0]["data"][0], 8);
  EXPECT_EQ(ask("POST", "/v2/models/double/infer", "x", "Content-Encoding: gzip\r\n").status, 400);
}

TEST_F(ModelServiceTest, AFewBytesDoNotBecomeMoreThanItIsTold) {
  http::Response packed;
  packed.body = std::string(size_t{1} << 20, ' ');
  compress(packed, "gzip");
  const Answer answer =
      ask("POST", "/v2/models/double/infer", packed.body, "Content-Encoding: gzip\r\n");
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("more than 256 KiB once it is decompressed"));
}

TEST_F(ModelServiceTest, BodiesThatAreHeldTogetherHaveABoundOnceTheyAreDecompressed) {
  http::Response packed;
  packed.body = request_for("[1,2,3]", kOnlyY) + std::string(size_t{150} << 10, ' ');
  compress(packed, "gzip");
  const std::string gzip = "Content-Encoding: gzip\r\n";
  std::mutex turn;
  engine_.turn = &turn;
  turn.lock();
  http::RawClient first = connect();
  first.send("POST /v2/models/double/infer HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + gzip +
             "Content-Length: " + std::to_string(packed.body.size()) + "\r\n\r\n" + packed.body);
  const Answer second = ask("POST", "/v2/models/double/infer", packed.body, gzip);
  EXPECT_EQ(second.status, 429);
  EXPECT_THAT(second.body, HasSubstr("once they are decompressed; try again later"));
  turn.unlock();
  wait_for_end(first);
  EXPECT_THAT(first.received, HasSubstr(" 200 "));
  EXPECT_EQ(ask("POST", "/v2/models/double/infer", packed.body, gzip).status, 200);
}

TEST_F(ModelServiceTest, StatisticsCountInferencesAndExecutions) {
  ask("POST", "/v2/models/double/infer", request_for("[1,2,3]", kOnlyY));
  ask("POST", "/v2/models/double/infer", request_for("[1]", kOnlyY));
  const json statistics = json::parse(ask("GET", "/v2/models/double/stats").body)["model_stats"][0];
  EXPECT_EQ(statistics["inference_count"], 4);
  EXPECT_EQ(statistics["execution_count"], 2);
  EXPECT_EQ(statistics["inference_stats"]["success"]["count"], 2);
  EXPECT_EQ(statistics["inference_stats"]["compute_infer"]["count"], 2);
}

}  // namespace
}  // namespace lambent::inference
