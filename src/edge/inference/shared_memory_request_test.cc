#include "edge/inference/shared_memory_request.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace lambent::inference {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json shared(const std::string& region, uint64_t size, uint64_t offset = 0) {
  json parameters = {{"shared_memory_region", region}, {"shared_memory_byte_size", size}};
  if (offset > 0) parameters["shared_memory_offset"] = offset;
  return parameters;
}

json input(const std::string& name, json parameters) {
  return {{"name", name},
          {"datatype", "FP32"},
          {"shape", {1, 2}},
          {"parameters", std::move(parameters)}};
}

Result<std::optional<SharedMemoryRequest>> parse(const json& head, const std::string& behind = "") {
  static std::string body;  // what is read points into it
  const std::string text = head.dump();
  body = text + behind;
  return parse_shared_memory_request(
      body, behind.empty() ? std::nullopt : std::optional<size_t>(text.size()));
}

std::string refusal_of(const json& head) {
  const auto parsed = parse(head);
  if (parsed.ok()) return "none";
  EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
  return parsed.error().message;
}

TEST(SharedMemoryRequest, InputsInRegionsBecomeBytesBehindTheJson) {
  const auto parsed = parse({{"id", "7"},
                             {"inputs",
                              {input("a", {{"binary_data_size", 3}}), input("b", shared("r", 8, 4)),
                               input("c", {{"binary_data_size", 2}})}}},
                            "123xy");
  ASSERT_TRUE(parsed.ok());
  const SharedMemoryRequest& request = **parsed;
  ASSERT_EQ(request.inputs.size(), 3u);
  EXPECT_EQ(request.inputs[0].own, "123");
  EXPECT_EQ(request.inputs[1].shared, (SharedSlice{.region = "r", .offset = 4, .size = 8}));
  EXPECT_EQ(request.inputs[2].own, "xy");
  EXPECT_EQ(request.shared_input_bytes(), 8u);
  const json made = json::parse(request.json);
  EXPECT_EQ(made["id"], "7");
  EXPECT_EQ(made["inputs"][1]["parameters"], json({{"binary_data_size", 8}}));
  EXPECT_EQ(made["inputs"][0]["parameters"], json({{"binary_data_size", 3}}));
}

TEST(SharedMemoryRequest, OutputsInRegionsAreAskedForAsBytes) {
  const auto parsed =
      parse({{"inputs", json::array()},
             {"outputs", {{{"name", "y"}, {"parameters", shared("r", 16, 2)}}, {{"name", "z"}}}}});
  ASSERT_TRUE(parsed.ok());
  ASSERT_EQ((*parsed)->outputs.size(), 1u);
  EXPECT_EQ((*parsed)->outputs[0].name, "y");
  EXPECT_EQ((*parsed)->outputs[0].place, (SharedSlice{.region = "r", .offset = 2, .size = 16}));
  const json made = json::parse((*parsed)->json);
  EXPECT_EQ(made["outputs"][0]["parameters"], json({{"binary_data", true}}));
  EXPECT_EQ(made["outputs"][1], json({{"name", "z"}}));
}

TEST(SharedMemoryRequest, ARequestThatNamesNoRegionIsLeftAsItIs) {
  for (const std::string body :
       {R"({"inputs": []})", "no JSON, shared_memory_region", R"(["shared_memory_region"])",
        R"({"inputs": 1, "outputs": "shared_memory_region"})",
        R"({"inputs": [{"name": "shared_memory_region", "parameters": 1}]})"}) {
    const auto parsed = parse_shared_memory_request(body, std::nullopt);
    ASSERT_TRUE(parsed.ok()) << body;
    EXPECT_FALSE(parsed->has_value()) << body;
  }
  // Bytes that are one input, and a length that is wrong.
  EXPECT_FALSE(parse_shared_memory_request("shared_memory_region", 0)->has_value());
  EXPECT_FALSE(parse_shared_memory_request("shared_memory_region", 99)->has_value());
}

TEST(SharedMemoryRequest, WhatIsWrongIsNamed) {
  json both = input("x", shared("r", 8));
  both["data"] = {1, 2};
  EXPECT_THAT(refusal_of({{"inputs", {both}}}), HasSubstr("input 'x' has data, and shared"));
  json size = shared("r", 8);
  size["binary_data_size"] = 8;
  EXPECT_THAT(refusal_of({{"inputs", {input("x", size)}}}), HasSubstr("shared memory beside"));
  for (const json& wrong : {json(-1), json(1.5), json("8"), json(nullptr)}) {
    json its = shared("r", 8);
    its["shared_memory_byte_size"] = wrong;
    EXPECT_THAT(refusal_of({{"inputs", {input("x", its)}}}),
                HasSubstr("input 'x': shared_memory_byte_size is a number"));
    its = shared("r", 8);
    its["shared_memory_offset"] = wrong;
    EXPECT_THAT(refusal_of({{"outputs", {{{"name", "y"}, {"parameters", its}}}}}),
                HasSubstr("output 'y': shared_memory_offset is a number"));
  }
  EXPECT_THAT(refusal_of({{"inputs", {input("x", {{"shared_memory_region", "r"}})}}}),
              HasSubstr("has to be there"));
  EXPECT_THAT(refusal_of({{"inputs", {input("x", {{"shared_memory_region", 7}})}}}),
              HasSubstr("is not a text"));
  EXPECT_THAT(refusal_of({{"inputs", {input("x", shared("r", uint64_t{1} << 62))}}}),
              HasSubstr("more than a request may bring"));
  const json y = {{"name", "y"}, {"parameters", shared("r", 4)}};
  EXPECT_EQ(refusal_of({{"outputs", {y, y}}}), "output 'y' is there twice");
}

http::Response answer(const json& outputs, const std::string& behind) {
  http::Response response;
  response.body = json({{"model_name", "m"}, {"outputs", outputs}}).dump();
  response.headers.add("Inference-Header-Content-Length", std::to_string(response.body.size()));
  response.headers.add("Content-Type", "application/octet-stream");
  response.headers.add("X-Lambent-Invocation-Id", "7");
  response.body += behind;
  return response;
}

json bytes_of(const std::string& name, size_t size) {
  return {{"name", name},
          {"datatype", "UINT8"},
          {"shape", {size}},
          {"parameters", {{"binary_data_size", size}}}};
}

const std::vector<SharedOutput> kOutputs = {
    {.name = "y", .place = {.region = "r", .offset = 4, .size = 8}},
    {.name = "w", .place = {.region = "s", .offset = 0, .size = 2}}};

TEST(SharedMemoryRequest, AnAnswersOutputsAreTakenOutOfItsBytes) {
  const http::Response whole =
      answer({bytes_of("w", 2), bytes_of("z", 3), bytes_of("y", 5)}, "wwzzzyyyyy");
  const auto taken = take_shared_outputs(whole, kOutputs);
  ASSERT_TRUE(taken.ok()) << taken.error().message;
  EXPECT_THAT(taken->written, testing::ElementsAre("yyyyy", "ww"));
  const auto& headers = taken->response.headers;
  EXPECT_EQ(headers.get("X-Lambent-Invocation-Id"), "7");
  const size_t length = std::stoul(std::string(headers.get("Inference-Header-Content-Length")));
  EXPECT_EQ(taken->response.body.substr(length), "zzz");
  const json head = json::parse(taken->response.body.substr(0, length));
  EXPECT_EQ(head["outputs"][2], json({{"name", "y"}, {"datatype", "UINT8"}, {"shape", {5}}}));
  EXPECT_FALSE(head["outputs"][0].contains("parameters"));
  EXPECT_EQ(head["outputs"][1]["parameters"], json({{"binary_data_size", 3}}));
}

TEST(SharedMemoryRequest, AnAnswerOfWhichNothingIsLeftIsJson) {
  const auto taken =
      take_shared_outputs(answer({bytes_of("y", 1), bytes_of("w", 0)}, "y"), kOutputs);
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(taken->response.headers.get("Content-Type"), "application/json");
  EXPECT_FALSE(taken->response.headers.contains("Inference-Header-Content-Length"));
  EXPECT_TRUE(json::parse(taken->response.body).is_object());
}

TEST(SharedMemoryRequest, AnOutputThatDoesNotFitItsPlaceIsRefused) {
  const auto taken =
      take_shared_outputs(answer({bytes_of("y", 9), bytes_of("w", 0)}, "yyyyyyyyy"), kOutputs);
  EXPECT_EQ(taken.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(taken.error().message,
            "output 'y' has 9 bytes, and its place in shared memory region 'r' 8");
}

TEST(SharedMemoryRequest, AnAnswerThatIsNoneIsTheServersFault) {
  const json in_text = {{"name", "w"}, {"data", {1}}};
  for (const http::Response& wrong :
       {answer({bytes_of("y", 1)}, "y"), answer({bytes_of("y", 1), in_text}, "y"),
        answer({bytes_of("y", 2), bytes_of("w", 0)}, "y"),
        answer({bytes_of("y", 1), bytes_of("w", 0)}, "yy"),
        answer({bytes_of("y", 0), bytes_of("y", 0), bytes_of("w", 0)}, ""), answer({1}, ""),
        answer("none", ""), http::Response{.headers = {}, .body = "none"}}) {
    EXPECT_EQ(take_shared_outputs(wrong, kOutputs).error().code, ErrorCode::kInternal)
        << wrong.body;
  }
}

TEST(SharedMemoryRequest, ARegistrationHasAKeyAndASize) {
  EXPECT_EQ(*parse_registration("a", R"({"key": "/k", "byte_size": 8, "offset": 4})"),
            (RegionSpec{.name = "a", .key = "/k", .offset = 4, .byte_size = 8}));
  EXPECT_EQ(parse_registration("a", R"({"key": "/k", "byte_size": 8})")->offset, 0u);
  for (const char* body :
       {"", "[]", R"({"key": "/k"})", R"({"byte_size": 8})", R"({"key": 1, "byte_size": 8})",
        R"({"key": "/k", "byte_size": -8})", R"({"key": "/k", "byte_size": 8, "offset": -1})",
        R"({"key": "/k", "byte_size": 36893488147419103232})"}) {
    EXPECT_EQ(parse_registration("a", body).error().code, ErrorCode::kInvalidArgument) << body;
  }
}

}  // namespace
}  // namespace lambent::inference
