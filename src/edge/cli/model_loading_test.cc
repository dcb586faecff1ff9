#include "edge/cli/model_loading.h"

#include <gtest/gtest.h>

#include "edge/cli/testing/verbs_testing.h"

namespace lambent::cli {
namespace {

class ModelLoading : public Verbs {
 protected:
  Result<std::optional<std::string>> load(int status, const std::string& body) {
    transport.answer(response(status, body));
    return load_model(transport, "/v2/models/scores");
  }
};

TEST_F(ModelLoading, TellsWhatTheModelTakesAndGives) {
  const auto takes = load(200, R"({"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
                                   "outputs": [{"name": "y", "datatype": "INT64", "shape": [1]}]})");
  ASSERT_TRUE(takes.ok());
  EXPECT_EQ(*takes, "x FP32[-1,4] -> y INT64[1]");
}

TEST_F(ModelLoading, TakesAnswersOfAnyForm) {
  EXPECT_TRUE(
      load(200, R"({"inputs": 7, "outputs": ["y", {"name": 1, "shape": {"a": []}}]})").ok());
  EXPECT_TRUE(load(200, R"({"inputs": {"name": "x"}})").ok());
  EXPECT_FALSE(load(200, "[]").ok());
  EXPECT_FALSE(load(500, R"({"error": 3})").ok());
}

TEST_F(ModelLoading, WhoMayDeployAndNotInvokeCannotTry) {
  const auto denied = load(403, "{}");
  ASSERT_TRUE(denied.ok());
  EXPECT_FALSE(denied->has_value());
}

}  // namespace
}  // namespace lambent::cli
