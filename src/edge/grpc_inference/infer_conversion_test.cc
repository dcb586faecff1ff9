#include "edge/grpc_inference/infer_conversion.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace lambent::grpc_inference {
namespace {

using nlohmann::json;
using testing::HasSubstr;

using Request = ::inference::ModelInferRequest;

Request request_with(const std::string& datatype, std::vector<int64_t> shape) {
  Request request;
  request.set_model_name("a b/c");
  auto& input = *request.add_inputs();
  input.set_name("x");
  input.set_datatype(datatype);
  for (const int64_t size : shape) input.add_shape(size);
  return request;
}

struct Sent {
  json head;
  std::string bytes;
};
Sent sent(const Request& request) {
  const auto made = infer_request(request);
  if (!made.ok()) {
    ADD_FAILURE() << made.error().message;
    return {};
  }
  const size_t length =
      std::stoul(std::string(made->headers.get("Inference-Header-Content-Length")));
  return {json::parse(made->body.substr(0, length)), made->body.substr(length)};
}
std::string refusal_of(const Request& request) {
  const auto made = infer_request(request);
  if (made.ok()) return "none";
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
  return made.error().message;
}

http::Response answer(const json& head, const std::string& bytes = "") {
  http::Response response;
  response.body = head.dump();
  if (!bytes.empty()) {
    response.headers.add("Inference-Header-Content-Length", std::to_string(response.body.size()));
  }
  response.body += bytes;
  return response;
}

TEST(InferConversion, RawContentsGoBehindTheJsonAsTheyAre) {
  Request request = request_with("FP32", {1, 2});
  request.set_model_version("3");
  request.set_id("7");
  request.add_raw_input_contents("12345678");
  (*request.mutable_parameters())["priority"].set_int64_param(2);
  request.add_outputs()->set_name("y");
  EXPECT_EQ(infer_request(request)->target, "/v2/models/a%20b%2Fc/versions/3/infer");
  const Sent made = sent(request);
  EXPECT_EQ(made.bytes, "12345678");
  EXPECT_EQ(made.head, json::parse(R"({"id": "7",
      "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2],
                  "parameters": {"binary_data_size": 8}}],
      "outputs": [{"name": "y", "parameters": {"binary_data": true}}],
      "parameters": {"binary_data_output": true, "priority": 2}})"));
}

TEST(InferConversion, TypedContentsBecomeBytesOfTheirType) {
  Request request = request_with("UINT16", {2});
  request.mutable_inputs(0)->mutable_contents()->add_uint_contents(1);
  request.mutable_inputs(0)->mutable_contents()->add_uint_contents(65535);
  EXPECT_EQ(sent(request).bytes, std::string("\x01\x00\xff\xff", 4));
  request = request_with("BYTES", {2});
  request.mutable_inputs(0)->mutable_contents()->add_bytes_contents("hi");
  request.mutable_inputs(0)->mutable_contents()->add_bytes_contents("");
  EXPECT_EQ(sent(request).bytes, std::string("\2\0\0\0hi\0\0\0\0", 10));
  request = request_with("FP64", {1});
  request.mutable_inputs(0)->mutable_contents()->add_fp64_contents(1);
  EXPECT_EQ(sent(request).bytes, std::string("\0\0\0\0\0\0\xf0\x3f", 8));
  EXPECT_EQ(sent(request_with("INT8", {0})).bytes, "");
}

TEST(InferConversion, ContentsThatDoNotFitAreRefusedWithTheInputsName) {
  Request request = request_with("INT8", {1});
  request.mutable_inputs(0)->mutable_contents()->add_int_contents(128);
  EXPECT_EQ(refusal_of(request), "input 'x': 128 does not fit its datatype");
  request.mutable_inputs(0)->mutable_contents()->clear_int_contents();
  request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  EXPECT_EQ(refusal_of(request), "input 'x': its contents are not those of INT8");
  EXPECT_THAT(refusal_of(request_with("FP16", {1})), HasSubstr("send raw_input_contents"));
  EXPECT_EQ(refusal_of(request_with("FP31", {1})), "input 'x': there is no datatype 'FP31'");
  request = request_with("INT8", {1});
  request.add_raw_input_contents("1");
  request.add_raw_input_contents("2");
  EXPECT_THAT(refusal_of(request), HasSubstr("all inputs are raw, or none is"));
  request = request_with("INT8", {1});
  request.add_raw_input_contents("1");
  request.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
  EXPECT_EQ(refusal_of(request), "input 'x' has contents and raw contents");
  request = request_with("INT8", {1});
  (*request.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r");
  request.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
  EXPECT_EQ(refusal_of(request), "input 'x' has contents and shared memory");
  request = request_with("INT8", {0});
  request.clear_model_name();
  EXPECT_EQ(refusal_of(request), "the request names no model");
}

TEST(InferConversion, TensorsInSharedMemoryHaveNoBytes) {
  Request request = request_with("FP32", {2});
  auto& first = *request.mutable_inputs(0)->mutable_parameters();
  first["shared_memory_region"].set_string_param("r");
  first["shared_memory_byte_size"].set_int64_param(8);
  auto& second = *request.add_inputs();
  second.set_name("y");
  second.set_datatype("INT8");
  second.add_shape(2);
  request.add_raw_input_contents("ab");
  auto& output = *request.add_outputs();
  output.set_name("z");
  auto& place = *output.mutable_parameters();
  place["shared_memory_region"].set_string_param("r");
  place["shared_memory_byte_size"].set_int64_param(4);
  place["shared_memory_offset"].set_int64_param(8);
  const Sent made = sent(request);
  EXPECT_EQ(made.bytes, "ab");
  EXPECT_EQ(made.head["inputs"][0]["parameters"],
            json({{"shared_memory_region", "r"}, {"shared_memory_byte_size", 8}}));
  EXPECT_EQ(made.head["inputs"][1]["parameters"], json({{"binary_data_size", 2}}));
  EXPECT_EQ(made.head["outputs"][0]["parameters"], json({{"shared_memory_region", "r"},
                                                         {"shared_memory_byte_size", 4},
                                                         {"shared_memory_offset", 8}}));
  request.add_raw_input_contents("ab");
  EXPECT_THAT(refusal_of(request), HasSubstr("1 inputs that are not in shared memory"));
}

TEST(InferConversion, AnOutputInSharedMemoryKeepsItsPlaceInTheList) {
  Request request;
  auto& wanted = *request.add_outputs();
  wanted.set_name("a");
  (*wanted.mutable_parameters())["shared_memory_region"].set_string_param("r");
  (*wanted.mutable_parameters())["shared_memory_offset"].set_int64_param(4);
  request.add_outputs()->set_name("b");
  const http::Response response = answer(json::parse(R"({"model_name": "m", "outputs": [
        {"name": "a", "datatype": "INT8", "shape": [2]},
        {"name": "b", "datatype": "INT8", "shape": [1], "parameters": {"binary_data_size": 1}}]})"),
                                         "b");
  const auto message = infer_response(response, request);
  ASSERT_TRUE(message.ok()) << message.error().message;
  ASSERT_EQ(message->raw_output_contents_size(), 2);
  EXPECT_EQ(message->raw_output_contents(0), "");
  EXPECT_EQ(message->raw_output_contents(1), "b");
  const auto& place = message->outputs(0).parameters();
  EXPECT_EQ(place.at("shared_memory_region").string_param(), "r");
  EXPECT_EQ(place.at("shared_memory_offset").int64_param(), 4);
  EXPECT_EQ(infer_response(response, Request()).error().code, ErrorCode::kInternal);
}

TEST(InferConversion, RegionsAreAskedForByTheirPaths) {
  EXPECT_EQ(region_target("system", "", "status"), "/v2/systemsharedmemory/status");
  EXPECT_EQ(region_target("cuda", "a/b", "register"), "/v2/cudasharedmemory/region/a%2Fb/register");
  ::inference::SystemSharedMemoryRegisterRequest request;
  EXPECT_FALSE(register_request(request).ok());
  request.set_name("r");
  request.set_key("/k");
  request.set_byte_size(8);
  const auto made = register_request(request);
  EXPECT_EQ(made->target, "/v2/systemsharedmemory/region/r/register");
  EXPECT_EQ(json::parse(made->body), json({{"key", "/k"}, {"offset", 0}, {"byte_size", 8}}));
  EXPECT_EQ(json::parse(*regions_by_name(R"([{"name": "r", "offset": 4}])")),
            json::parse(R"({"regions": {"r": {"name": "r", "offset": 4}}})"));
  EXPECT_EQ(regions_by_name("{}").error().code, ErrorCode::kInternal);
  EXPECT_EQ(regions_by_name("[1]").error().code, ErrorCode::kInternal);
}

TEST(InferConversion, AnAnswersOutputsAreRawInTheirOrder) {
  const auto message = infer_response(
      answer(json::parse(R"({"model_name": "m", "model_version": "1", "id": "7", "outputs": [
        {"name": "a", "datatype": "INT8", "shape": [2], "parameters": {"binary_data_size": 2}},
        {"name": "b", "datatype": "INT16", "shape": [2, 2], "data": [[1, 2], [3, -1]]},
        {"name": "c", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 5}}]})"),
             std::string("\1\2\1\0\0\0z", 7)),
      Request());
  ASSERT_TRUE(message.ok()) << message.error().message;
  EXPECT_EQ(message->id(), "7");
  ASSERT_EQ(message->raw_output_contents_size(), 3);
  EXPECT_EQ(message->raw_output_contents(0), "\1\2");
  EXPECT_EQ(message->raw_output_contents(1), std::string("\1\0\2\0\3\0\xff\xff", 8));
  EXPECT_EQ(message->raw_output_contents(2), std::string("\1\0\0\0z", 5));
  EXPECT_EQ(message->outputs(1).shape_size(), 2);
}

TEST(InferConversion, WhatIsNoAnswerOfTheProtocolIsTheModelsFault) {
  const auto output = [](const std::string& text) {
    return answer({{"outputs", json::array({json::parse(text)})}}, "1");
  };
  std::vector<http::Response> bad = {answer(json::array()),
                                     answer(json::object()),
                                     answer({{"outputs", json::array()}}, "bytes behind it"),
                                     output(R"({"name": "a"})"),
                                     output(R"({"datatype": "INT8", "shape": 1})"),
                                     output(R"({"datatype": "INT8", "shape": ["1"]})"),
                                     output(R"({"datatype": "INT8", "shape": [1]})"),
                                     output(R"({"datatype": "INT8", "shape": [1], "data": [300]})"),
                                     output(R"({"datatype": "INT8", "shape": [9],
                                                "parameters": {"binary_data_size": 9}})")};
  bad.push_back(answer({{"outputs", json::array()}}));
  bad.back().headers.add("Inference-Header-Content-Length", "1000");
  for (const http::Response& response : bad) {
    const auto message = infer_response(response, Request());
    ASSERT_FALSE(message.ok()) << response.body;
    EXPECT_EQ(message.error().code, ErrorCode::kInternal);
  }
}

TEST(InferConversion, ErrorsKeepTheirCodes) {
  const std::pair<ErrorCode, grpc::StatusCode> kCodes[] = {
      {ErrorCode::kCancelled, grpc::StatusCode::CANCELLED},
      {ErrorCode::kAlreadyExists, grpc::StatusCode::ALREADY_EXISTS},
      {ErrorCode::kAborted, grpc::StatusCode::ABORTED},
      {ErrorCode::kOutOfRange, grpc::StatusCode::OUT_OF_RANGE},
      {ErrorCode::kDataLoss, grpc::StatusCode::DATA_LOSS},
      {ErrorCode::kUnauthenticated, grpc::StatusCode::UNAUTHENTICATED},
      {ErrorCode::kStorageFull, grpc::StatusCode::RESOURCE_EXHAUSTED}};
  for (const auto& [ours, theirs] : kCodes) {
    EXPECT_EQ(status_of(Error{ours, "why"}).error_code(), theirs) << name_of(ours);
  }
}

TEST(InferConversion, StatusesAreThoseOfGrpc) {
  const auto code = [](int status) {
    return status_of(http::Response{.status = status, .body = R"({"error": "why"})"}).error_code();
  };
  EXPECT_EQ(code(200), grpc::StatusCode::OK);
  EXPECT_EQ(code(400), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code(401), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code(404), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(code(409), grpc::StatusCode::ABORTED) << "a function that changes right now";
  EXPECT_EQ(code(507), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(code(413), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(code(429), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(code(501), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(code(500), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(code(502), grpc::StatusCode::UNKNOWN) << "the model's program ended";
  EXPECT_EQ(code(503), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(code(504), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(status_of(http::Response{.status = 404, .body = R"({"error": "why"})"}).error_message(),
            "why");
  EXPECT_EQ(status_of(http::Response{.status = 404, .body = "<p>"}).error_message(),
            "the answer has status 404");
  EXPECT_EQ(status_of(Error{ErrorCode::kUnavailable, "down"}).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace lambent::grpc_inference
