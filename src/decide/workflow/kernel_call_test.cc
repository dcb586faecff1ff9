#include "decide/workflow/kernel_call.h"

#include <gtest/gtest.h>

#include "decide/workflow/testing/testing.h"

namespace lambent::workflow {
namespace {

constexpr const char* kId = "00000000-0000-0001-0000-000000000002.1";

TEST(KernelCall, TensorsByNameBecomeARequest) {
  const Value input = {{"a", {{"object", kId}, {"datatype", "FP32"}, {"shape", {2}}}},
                       {"b", {1, 2.5}},
                       {"c", 7},
                       {"d", "AAAA"},
                       {"e", {{"datatype", "INT32"}, {"shape", {1}}, {"data", {4}}}}};
  EXPECT_EQ(
      kernel_request(input, KernelOutputs::kObjects).value(),
      R"({"inputs":[{"datatype":"FP32","name":"a","parameters":{"object":")" + std::string(kId) +
          R"("},"shape":[2]},{"data":[1,2.5],"name":"b"},{"data":[7],"name":"c"},)"
          R"({"data":"AAAA","name":"d"},{"data":[4],"datatype":"INT32","name":"e","shape":[1]}],)"
          R"("parameters":{"object":true}})");
  EXPECT_EQ(kernel_request(Value::object(), KernelOutputs::kByValue).value(), R"({"inputs":[]})");
  EXPECT_EQ(kernel_request(Value::object(), KernelOutputs::kOnDevice).value(),
            R"({"inputs":[],"parameters":{"keep":"device","object":true}})");
}

TEST(KernelCall, WhatIsNoTensorIsNamed) {
  EXPECT_EQ(kernel_request(Value::array(), KernelOutputs::kObjects).error().message,
            "the input of a kernel function is an object of tensors by name, this is a list");
  EXPECT_EQ(kernel_request({{"x", nullptr}}, KernelOutputs::kObjects).error().message,
            "input 'x' is null; a tensor is an object's reference, numbers, or datatype, shape and "
            "data");
  EXPECT_EQ(kernel_request({{"x", {{"dta", 1}}}}, KernelOutputs::kObjects).error().message,
            "input 'x' has the key 'dta'; a tensor has object, or datatype, shape and data");
}

TEST(KernelCall, TheElementsOfInputsAreThoseOfTheirShapes) {
  const Value with_shape = {{"object", kId}, {"datatype", "FP32"}, {"shape", {3, 2}}};
  EXPECT_EQ(elements_of({{"a", {1, 2}}, {"x", with_shape}}), 3u);
  EXPECT_EQ(elements_of({{"x", {{"object", kId}}}}), 0u);
  EXPECT_EQ(elements_of({{"x", {1, 2}}}), 0u);
  EXPECT_EQ(elements_of(Value::array({1})), 0u);
  for (const Value& shape : {Value("3"), Value::array(), Value::array({-1}), Value::array({1.5})}) {
    EXPECT_EQ(elements_of({{"x", {{"shape", shape}}}}), 0u) << shape;
  }
}

TEST(KernelCall, AnswersBecomeOutputsByName) {
  const auto outputs = kernel_outputs(
      R"({"outputs":[{"name":"y","datatype":"FP32","shape":[2],"parameters":{"object":")" +
      std::string(kId) + R"("}},{"name":"n","datatype":"UINT8","shape":[],"data":[42]}]})");
  ASSERT_TRUE(outputs.ok());
  EXPECT_EQ(*outputs,
            (Value{{"y", {{"datatype", "FP32"}, {"shape", {2}}, {"object", kId}}},
                   {"n", {{"datatype", "UINT8"}, {"shape", Value::array()}, {"data", {42}}}}}));
  // An output may be the next one's input as it is.
  EXPECT_TRUE(kernel_request(*outputs, KernelOutputs::kObjects).ok());
  for (const char* strange : {"", "[]", "{", R"({"outputs":1})", R"({"outputs":[{"data":1}]})"}) {
    EXPECT_FALSE(kernel_outputs(strange).ok()) << strange;
  }
}

constexpr const char* kChain = R"(
  {"name": "a", "function": "f", "input": {"n": "$input.n"}},
  {"name": "b", "function": "f", "input": "$a"},
  {"name": "c", "function": "f", "for_each": ["$a.x", 1], "input": "$item"},
  {"name": "d", "function": "f", "input": {"b": "$b", "c": "$c"}})";

TEST(KernelCall, OnlyWhatNoOneOutsideReadsHasInnerReaders) {
  const auto flow = workflow_of(kChain, R"({"b": "$b.y"})");
  EXPECT_EQ(inner_readers_of(*flow, 0), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(inner_readers_of(*flow, 1), std::nullopt);
  EXPECT_EQ(inner_readers_of(*flow, 2), std::vector<uint32_t>{3});
  EXPECT_EQ(inner_readers_of(*flow, 3), std::vector<uint32_t>());
  EXPECT_EQ(inner_readers_of(*workflow_of(kChain), 3), std::nullopt);
}

TEST(KernelCall, TheInputHasReadersToo) {
  EXPECT_EQ(inner_readers_of_input(*workflow_of(kChain, "1")), std::vector<uint32_t>{0});
  EXPECT_EQ(inner_readers_of_input(*workflow_of(kChain, R"("$input.n")")), std::nullopt);
  const auto each = workflow_of(
      R"({"name": "a", "function": "f", "for_each": "$input.xs", "input": "$item"},
         {"name": "b", "function": "f", "input": 1})",
      "1");
  EXPECT_EQ(inner_readers_of_input(*each), std::vector<uint32_t>{0});
}

TEST(KernelCall, ReferencesAreFoundWhereverTheyAre) {
  const Value value = {{"deep", {1, {{"object", kId}}, {{"object", "no id"}}}}, {"object", kId}};
  EXPECT_EQ(objects_in(value), std::vector<ObjectId>{*object_id_from_string(kId)});
}

}  // namespace
}  // namespace lambent::workflow
