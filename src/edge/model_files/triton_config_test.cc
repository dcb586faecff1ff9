// config.pbtxt: what is understood, what is said of the rest.
#include "edge/model_files/triton_config.h"

#include <gmock/gmock.h>

namespace lambent::model_files {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Error error_of(std::string_view text) {
  const auto read = read_triton_config(text, "config.pbtxt");
  EXPECT_FALSE(read.ok()) << text;
  return read.ok() ? Error{} : read.error();
}

TEST(TritonConfig, SaysNameFilePolicyAndBatches) {
  const auto read = read_triton_config(R"(
    name: "scores"  # a comment
    platform: "onnxruntime_onnx"
    default_model_filename: "weights.onnx"
    max_batch_size: 16
    input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
    output [ { name: "scores" data_type: TYPE_FP32 dims: [ 3 ] } ]
    version_policy: { latest { num_versions: 2 } }
    dynamic_batching { max_queue_delay_microseconds: 1500 }
  )",
                                       "config.pbtxt");
  ASSERT_TRUE(read.ok()) << to_string(read.error());
  EXPECT_EQ(read->name, "scores");
  EXPECT_EQ(read->file, "weights.onnx");
  EXPECT_EQ(read->version_policy, "latest:2");
  EXPECT_EQ(read->batch_size, 16u);
  EXPECT_EQ(read->batch_wait_ms, 1.5);
  EXPECT_TRUE(read->warnings.empty());
}

TEST(TritonConfig, PoliciesHaveTheirWords) {
  const auto policy = [](const std::string& text) {
    return read_triton_config("version_policy: " + text, "c").value().version_policy;
  };
  EXPECT_EQ(policy("{ all {} }"), "all");
  EXPECT_EQ(policy("{ specific { versions: [1, 3] } }"), "specific:1,3");
  EXPECT_EQ(policy("{ latest {} }"), "latest:1");
  EXPECT_EQ(read_triton_config("", "c").value().version_policy, "");
  EXPECT_EQ(error_of("version_policy {}").code, ErrorCode::kInvalidArgument);
}

TEST(TritonConfig, AFieldThatIsNotKnownIsRefusedByNameAndPlace) {
  const Error error = error_of("name: \"a\"\nensemble_scheduling { step [] }\n");
  EXPECT_EQ(error.code, ErrorCode::kUnimplemented);
  EXPECT_THAT(error.message, HasSubstr("config.pbtxt: line 2, column 21"));
  EXPECT_THAT(error.message,
              HasSubstr("\"ModelConfig\" has no field named \"ensemble_scheduling\""));
}

TEST(TritonConfig, BadTextIsRefusedWithItsPlace) {
  const Error error = error_of("name: \"a\"\nmax_batch_size: many\n");
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("line 2"));
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "input { reshape { ";
  EXPECT_THAT(error_of(deep).message, HasSubstr("line 1"));
}

TEST(TritonConfig, WhatIsNotServedHereIsRefused) {
  EXPECT_THAT(error_of("platform: \"tensorflow_savedmodel\"").message,
              HasSubstr("platform 'tensorflow_savedmodel' is not served here"));
  EXPECT_EQ(error_of("backend: \"python\"").code, ErrorCode::kUnimplemented);
  EXPECT_THAT(error_of("input { name: \"x\" reshape { shape: [1] } }").message,
              HasSubstr("'x' has reshape"));
  EXPECT_EQ(error_of("dynamic_batching {}").code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of("max_batch_size: -1").code, ErrorCode::kInvalidArgument);
}

TEST(TritonConfig, WhatIsOfNoConsequenceIsWarnedOf) {
  const auto read = read_triton_config(
      "max_batch_size: 4 dynamic_batching { preferred_batch_size: [2, 4] } "
      "instance_group [ { kind: KIND_CPU count: 2 } ]",
      "c");
  ASSERT_TRUE(read.ok());
  EXPECT_THAT(read->warnings, ElementsAre(HasSubstr("preferred_batch_size is not used"),
                                          HasSubstr("instance_group is not used")));
}

}  // namespace
}  // namespace lambent::model_files
