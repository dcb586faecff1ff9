#include "edge/frontend/openai_call.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace lambent::frontend {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(OpenaiCallTest, TheModelIsTheTextInTheOutermostObject) {
  EXPECT_EQ(*openai_model_of(R"({"model": "tiny"})"), "tiny");
  EXPECT_EQ(*openai_model_of(R"({"messages": [{"model": "no"}], "n": 1, "model": "org/t\u00e4"})"),
            "org/tä");
  EXPECT_EQ(*openai_model_of(R"({"model": "tiny", "what follows": is the program's to read)"),
            "tiny");
}

TEST(OpenaiCallTest, ABodyThatNamesNoneIsRefused) {
  for (const char* body :
       {"", "{", "[]", "7", "\"model\"", R"(["model", "tiny"])", R"({"a": {"model": "tiny"}})",
        R"({"model": 7})", R"({"model": ["tiny"]})", R"({"model": {"model": "tiny"}})",
        R"({"model": ""})", R"([{"model": "tiny"}])", "{\"model\": \"\xff\"}"}) {
    const auto model = openai_model_of(body);
    ASSERT_FALSE(model.ok()) << body << " names " << *model;
    EXPECT_EQ(model.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(OpenaiCallTest, NestingHasNoLimitAndNeedsNoStack) {
  std::string deep = R"({"messages": )" + std::string(500'000, '[');
  EXPECT_FALSE(openai_model_of(deep).ok());
  deep += std::string(500'000, ']') + R"(, "model": "tiny"})";
  EXPECT_EQ(*openai_model_of(deep), "tiny");
}

TEST(OpenaiCallTest, ItsPathsAreThoseOfTheApiAndNoneOfOurs) {
  for (const char* path : {"/v1/models", "/v1/models/", "/v1/models/org/tiny",
                           "/v1/chat/completions", "/v1/completions", "/v1/embeddings"}) {
    EXPECT_TRUE(is_openai_path(path)) << path;
  }
  for (const char* path :
       {"/v1/modelsx", "/v1/functions", "/v1/chat", "/v1/completions/x", "/v1"}) {
    EXPECT_FALSE(is_openai_path(path)) << path;
  }
  EXPECT_FALSE(is_for_openai_model("/v1/models"));
}

TEST(OpenaiCallTest, ErrorsHaveTheFormThatItsClientsRead) {
  http::Response response = openai_error(Error{ErrorCode::kUnauthenticated, "no such token"});
  EXPECT_EQ(response.status, 401);
  EXPECT_EQ(json::parse(response.body), json({{"error",
                                               {{"message", "no such token"},
                                                {"type", "invalid_request_error"},
                                                {"param", nullptr},
                                                {"code", "invalid_api_key"}}}}));
  response = openai_error(Error{ErrorCode::kResourceExhausted, "slower"}, seconds(3));
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(response.headers.get("Retry-After"), "3");
  EXPECT_EQ(json::parse(response.body)["error"]["code"], "rate_limit_exceeded");
  EXPECT_EQ(openai_error(Error{ErrorCode::kOutOfRange, "large"}).status, 413);
  response = no_such_openai_model("gpt");
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(json::parse(response.body)["error"]["code"], "model_not_found");
  EXPECT_THAT(response.body, HasSubstr("'gpt'"));
}

}  // namespace
}  // namespace lambent::frontend
