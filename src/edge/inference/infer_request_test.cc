#include "edge/inference/infer_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace lambent::inference {
namespace {

using testing::HasSubstr;

const ModelDescription kModel = {
    .platform = "test",
    .inputs = {{"x", DataType::kFp32, {-1, 2}}, {"n", DataType::kInt8, {1}}},
    .outputs = {{"y", DataType::kFp32, {-1}}, {"z", DataType::kBytes, {-1}}}};
const ModelDescription kOneInput = {
    .platform = "test", .inputs = {{"x", DataType::kFp32, {-1, 2}}}, .outputs = kModel.outputs};
const ModelDescription kTexts = {
    .platform = "test", .inputs = {{"t", DataType::kBytes, {-1}}}, .outputs = kModel.outputs};

const std::string kN = R"({"name":"n","datatype":"INT8","shape":[1],"data":[-3]})";

template <typename T>
std::vector<T> values_of(const Tensor& tensor) {
  std::vector<T> values(tensor.content.size() / sizeof(T));
  memcpy(values.data(), tensor.content.data(), tensor.content.size());
  return values;
}

std::string with_x(const std::string& x, const std::string& more = "") {
  return R"({"inputs":[)" + x + "," + kN + "]" + more + "}";
}
std::string refusal_of(const std::string& body, std::optional<size_t> json_length = std::nullopt,
                       const ModelDescription& model = kModel) {
  const auto request = parse_infer_request(body, json_length, model);
  EXPECT_FALSE(request.ok()) << body;
  if (request.ok()) return "";
  EXPECT_EQ(request.error().code, ErrorCode::kInvalidArgument);
  return request.error().message;
}

TEST(InferRequest, ARegionOfWhichNoBytesCameIsNotFound) {
  const auto request = parse_infer_request(with_x(R"({"name":"x","datatype":"FP32","shape":[1,2],
                 "parameters":{"shared_memory_region":"a","shared_memory_byte_size":8}})"),
                                           std::nullopt, kModel);
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(request.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(request.error().message, HasSubstr("input 'x': no shared memory region 'a'"));
}

TEST(InferRequest, TensorsOfJsonAreReadInOrderHoweverTheyAreNested) {
  for (const char* data : {"[[1,2],[3.5,-4]]", "[1,2,3.5,-4]", "[[[1],2],[3.5,[-4]]]"}) {
    const auto request = parse_infer_request(
        with_x(R"({"name":"x","datatype":"FP32","shape":[2,2],"data":)" + std::string(data) + "}",
               R"(,"id":"7")"),
        std::nullopt, kModel);
    ASSERT_TRUE(request.ok()) << request.error().message;
    EXPECT_EQ(request->id, "7");
    EXPECT_EQ(values_of<float>(request->inputs[0]), (std::vector<float>{1, 2, 3.5, -4}));
    EXPECT_EQ(values_of<int8_t>(request->inputs[1]), std::vector<int8_t>{-3});
    ASSERT_EQ(request->outputs.size(), 2u);
    EXPECT_FALSE(request->outputs[0].is_binary);
  }
}

TEST(InferRequest, TensorsBehindTheJsonAreNotCopied) {
  const std::string json =
      R"({"inputs":[{"name":"n","datatype":"INT8","shape":[1],"parameters":{"binary_data_size":1}},)"
      R"({"name":"x","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}}],)"
      R"("outputs":[{"name":"z","parameters":{"binary_data":false}},{"name":"y"}],)"
      R"("parameters":{"binary_data_output":true}})";
  const float x[] = {1.5, 2.5};
  std::string body = json + "\x05";
  body.append(reinterpret_cast<const char*>(x), sizeof x);
  const auto request = parse_infer_request(body, json.size(), kModel);
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(values_of<float>(request->inputs[1]), (std::vector<float>{1.5, 2.5}));
  EXPECT_EQ(request->inputs[1].content.data(), body.data() + json.size() + 1);
  EXPECT_FALSE(request->outputs[0].is_binary);
  EXPECT_TRUE(request->outputs[1].is_binary);
}

TEST(InferRequest, ABodyWithoutJsonIsTheOneInput) {
  const auto request = parse_infer_request(std::string(24, '\0'), 0, kOneInput);
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->inputs[0].shape, (Shape{3, 2}));
  EXPECT_TRUE(request->outputs[0].is_binary);
  EXPECT_THAT(refusal_of(std::string(7, 'a'), 0, kOneInput),
              HasSubstr("7 bytes are no FP32[-1,2]"));
  EXPECT_THAT(refusal_of("abc", 0), HasSubstr("models with one input"));
  const auto text = parse_infer_request("hello", 0, kTexts);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(bytes_elements(text->inputs[0].content, 1)->front(), "hello");
}

TEST(InferRequest, TextsAreElementsOfBytes) {
  const auto request = parse_infer_request(
      R"({"inputs":[{"name":"t","datatype":"BYTES","shape":[2],"data":["a","\u00e9"]}]})",
      std::nullopt, kTexts);
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(*bytes_elements(request->inputs[0].content, 2),
            (std::vector<std::string_view>{"a", "\xc3\xa9"}));
}

TEST(InferRequest, WhatIsWrongIsNamed) {
  const auto x = [](const std::string& fields) {
    return with_x(R"({"name":"x","datatype":"FP32",)" + fields + "}");
  };
  EXPECT_THAT(refusal_of("{"), HasSubstr("no valid JSON"));
  EXPECT_THAT(refusal_of("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal_of("{}"), HasSubstr("no list of inputs"));
  EXPECT_THAT(refusal_of(R"({"inputs":[]})"), HasSubstr("input 'x' is missing; it is FP32[-1,2]"));
  EXPECT_THAT(refusal_of(R"({"inputs":[)" + kN + "," + kN + "]}"),
              HasSubstr("input 'n': it is there twice"));
  EXPECT_THAT(refusal_of(R"({"inputs":[{"name":"w","datatype":"FP32","shape":[1],"data":[1]}]})"),
              HasSubstr("no such input; it has x, n"));
  EXPECT_THAT(refusal_of(with_x(R"({"name":"x","datatype":"FP64","shape":[1,2],"data":[1,2]})")),
              HasSubstr("datatype is FP64, the model's is FP32"));
  EXPECT_THAT(refusal_of(x(R"("shape":[1,3],"data":[1,2,3])")),
              HasSubstr("shape is [1,3], the model's is [-1,2]"));
  EXPECT_THAT(refusal_of(x(R"("shape":[2],"data":[1,2])")), HasSubstr("shape is [2]"));
  EXPECT_THAT(refusal_of(x(R"("shape":[-1,2],"data":[1,2])")), HasSubstr("whole number from 0"));
  EXPECT_THAT(refusal_of(x(R"("shape":[1.5,2],"data":[1,2])")), HasSubstr("whole number from 0"));
  EXPECT_THAT(refusal_of(x(R"("shape":[4611686018427387904,2],"data":[])")), HasSubstr("shape is"));
  EXPECT_THAT(refusal_of(x(R"("shape":[1,2],"data":[1])")), HasSubstr("1 elements, the shape 2"));
  EXPECT_THAT(refusal_of(x(R"("shape":[1,2],"data":[1,2,3])")), HasSubstr("more elements"));
  EXPECT_THAT(refusal_of(x(R"("shape":[1,2],"data":[1,"2"])")),
              HasSubstr("element 1 of data, \"2\", is no FP32"));
  EXPECT_THAT(refusal_of(x(R"("shape":[1,2])")), HasSubstr("neither data nor binary_data_size"));
  EXPECT_THAT(refusal_of(R"({"inputs":[{"name":"n","datatype":"INT8","shape":[1],"data":[128]}]})"),
              HasSubstr("128, is no INT8"));
  EXPECT_THAT(refusal_of(with_x(R"({"name":"x","datatype":"FP32","shape":[0,2],"data":[]})",
                                R"(,"outputs":[{"name":"w"}])")),
              HasSubstr("no such output; it has y, z"));
  EXPECT_THAT(refusal_of(with_x(R"({"name":"x","datatype":"FP32","shape":[0,2],"data":[]})",
                                R"(,"outputs":[{"name":"y"},{"name":"y"}])")),
              HasSubstr("output 'y' is there twice"));
  EXPECT_THAT(refusal_of(std::string(100, '[')), HasSubstr("nested"));
}

TEST(InferRequest, LengthsThatLieAreRefused) {
  const std::string json =
      with_x(R"({"name":"x","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}})");
  EXPECT_THAT(refusal_of(json, json.size() + 1), HasSubstr("the body has"));
  EXPECT_THAT(refusal_of(json + "1234567", json.size()), HasSubstr("7 bytes are left"));
  EXPECT_THAT(refusal_of(json + "123456789", json.size()), HasSubstr("1 bytes behind the JSON"));
  const std::string four =
      with_x(R"({"name":"x","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":4}})");
  EXPECT_THAT(refusal_of(four + "1234", four.size()), HasSubstr("it has 4 bytes"));
  EXPECT_EQ(parse_json_length("")->has_value(), false);
  EXPECT_EQ(parse_json_length("12")->value(), 12u);
  for (const char* header : {"-1", "1x", " 1", "99999999999999999999999"}) {
    EXPECT_FALSE(parse_json_length(header).ok()) << header;
  }
}

}  // namespace
}  // namespace lambent::inference
