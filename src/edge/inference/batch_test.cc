#include "edge/inference/batch.h"

#include <gmock/gmock.h>

namespace lambent::inference {
namespace {

using testing::HasSubstr;

Tensor tensor(const std::string& name, DataType type, Shape shape, std::string content) {
  Tensor made;
  made.name = name;
  made.type = type;
  made.shape = std::move(shape);
  made.own(std::move(content));
  return made;
}

InferRequest request(std::vector<Tensor> inputs, std::vector<RequestedOutput> outputs = {{"y"}}) {
  InferRequest made;
  made.inputs = std::move(inputs);
  made.outputs = std::move(outputs);
  return made;
}
InferRequest of_x(Shape shape, std::string content) {
  std::vector<Tensor> inputs;
  inputs.push_back(tensor("x", DataType::kInt8, std::move(shape), std::move(content)));
  return request(std::move(inputs));
}

TEST(Batch, IsOfAModelWhoseFirstDimensionsAreOpen) {
  ModelDescription model{.platform = "p",
                         .inputs = {{"x", DataType::kInt8, {-1, 2}}},
                         .outputs = {{"y", DataType::kInt8, {-1}}}};
  EXPECT_TRUE(has_batches(model));
  model.outputs.push_back({"sum", DataType::kInt8, {1}});
  EXPECT_FALSE(has_batches(model));
  model.outputs = {{"y", DataType::kInt8, {}}};
  EXPECT_FALSE(has_batches(model));
}

TEST(Batch, ARequestBringsTheFirstDimensionThatItsInputsHaveInCommon) {
  EXPECT_EQ(batch_elements(of_x({2, 1}, "ab")), 2u);
  EXPECT_EQ(batch_elements(of_x({0, 1}, "")), std::nullopt) << "none: it runs by itself";
  std::vector<Tensor> inputs;
  inputs.push_back(tensor("x", DataType::kInt8, {2}, "ab"));
  inputs.push_back(tensor("z", DataType::kInt8, {1}, "a"));
  EXPECT_EQ(batch_elements(request(std::move(inputs))), std::nullopt);
}

TEST(Batch, RequestsFitTogetherByTheRestOfTheirShapesAndTheirOutputs) {
  const InferRequest one = of_x({1, 2}, "ab");
  EXPECT_TRUE(fit_together(one, of_x({3, 2}, "abcdef")));
  EXPECT_FALSE(fit_together(one, of_x({1, 1}, "a")));
  InferRequest other = of_x({1, 2}, "ab");
  other.outputs = {{"z"}};
  EXPECT_FALSE(fit_together(one, other));
}

TEST(Batch, WhatIsJoinedComesApartAgain) {
  std::vector<Tensor> first, second;
  first.push_back(tensor("x", DataType::kInt8, {1, 2}, "ab"));
  first.push_back(tensor("t", DataType::kBytes, {1}, std::string("\1\0\0\0A", 5)));
  // In another order.
  second.push_back(tensor("t", DataType::kBytes, {2}, std::string("\0\0\0\0\2\0\0\0BC", 10)));
  second.push_back(tensor("x", DataType::kInt8, {2, 2}, "cdef"));
  const InferRequest a = request(std::move(first)), b = request(std::move(second));
  ASSERT_TRUE(fit_together(a, b));
  const InferRequest* const both[] = {&a, &b};
  const auto joined = join_inputs(both);
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_EQ(joined[0].shape, (Shape{3, 2}));
  EXPECT_EQ(joined[0].content, "abcdef");
  EXPECT_EQ(joined[1].shape, (Shape{3}));
  EXPECT_EQ(joined[1].content, std::string("\1\0\0\0A\0\0\0\0\2\0\0\0BC", 15));

  const uint64_t elements[] = {1, 2};
  const auto split = split_outputs(joined, elements);
  ASSERT_TRUE(split.ok()) << split.error().message;
  EXPECT_EQ((*split)[0][0].content, "ab");
  EXPECT_EQ((*split)[0][1].content, std::string("\1\0\0\0A", 5));
  EXPECT_EQ((*split)[1][0].shape, (Shape{2, 2}));
  EXPECT_EQ((*split)[1][0].content, "cdef");
  EXPECT_EQ((*split)[1][1].content, std::string("\0\0\0\0\2\0\0\0BC", 10));
}

TEST(Batch, OutputsThatAreNoneOfABatchAreNamed) {
  const uint64_t elements[] = {1, 2};
  std::vector<Tensor> outputs;
  outputs.push_back(tensor("sum", DataType::kInt8, {1}, "a"));
  const auto split = split_outputs(outputs, elements);
  ASSERT_FALSE(split.ok());
  EXPECT_THAT(split.error().message, HasSubstr("output 'sum' has the shape [1] for a batch of 3"));
  outputs.clear();
  outputs.push_back(tensor("y", DataType::kBytes, {3}, "not so long"));
  EXPECT_FALSE(split_outputs(outputs, elements).ok());
}

}  // namespace
}  // namespace lambent::inference
