#include "edge/frontend/openai_call.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace lambent::frontend {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string kJson = "application/json";

Result<std::optional<std::string>> openai_model_of(const std::string& type, const std::string& body,
                                                   bool is_whole) {
  return OpenaiModelFinder(type).look(body, is_whole);
}

// Of a whole body.
std::string model_of(const std::string& body) {
  const auto model = openai_model_of(kJson, body, true);
  EXPECT_TRUE(model.ok()) << body.substr(0, 100);
  return model.ok() ? model->value_or("nothing") : "";
}

TEST(OpenaiCallTest, TheModelIsTheTextInTheOutermostObject) {
  EXPECT_EQ(model_of(R"({"model": "tiny"})"), "tiny");
  EXPECT_EQ(model_of(R"({"messages": [{"model": "no"}], "n": 1, "model": "org/t\u00e4"})"),
            "org/tä");
  EXPECT_EQ(model_of(R"({"model": "tiny", "what follows": is the program's to read)"), "tiny");
}

TEST(OpenaiCallTest, ABodyThatNamesNoneIsRefused) {
  for (const char* body :
       {"", "{", "[]", "7", "\"model\"", R"(["model", "tiny"])", R"({"a": {"model": "tiny"}})",
        R"({"model": 7})", R"({"model": ["tiny"]})", R"({"model": {"model": "tiny"}})",
        R"({"model": ""})", R"([{"model": "tiny"}])", "{\"model\": \"\xff\"}"}) {
    const auto model = openai_model_of(kJson, body, true);
    ASSERT_FALSE(model.ok()) << body;
    EXPECT_EQ(model.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(OpenaiCallTest, WhatHasComeOfABodySaysItsModelOrThatMoreIsNeeded) {
  const std::string body =
      R"({"messages": [{"content": "\u00e4 tr\u00fce 1.5e3"}, null, true, -2], "model": "tiny", "n": 1})";
  const size_t needed = body.find("tiny\"") + 5;
  OpenaiModelFinder finder(kJson);
  for (size_t size = 0; size <= body.size(); ++size) {
    const auto model = openai_model_of(kJson, body.substr(0, size), false);
    ASSERT_TRUE(model.ok()) << body.substr(0, size);
    ASSERT_EQ(model->has_value(), size >= needed) << body.substr(0, size);
    if (size <= needed) {
      EXPECT_EQ(*finder.look(body.substr(0, size), false), *model) << "the same in pieces";
    }
  }
  EXPECT_FALSE(openai_model_of(kJson, "{]   ", false).ok()) << "nothing that follows mends it";
  EXPECT_FALSE(openai_model_of(kJson, "[1, ", false).ok());
}

TEST(OpenaiCallTest, OfAFormItIsThePartOfThatName) {
  const std::string type = "multipart/form-data; boundary=XX";
  const std::string form =
      "--XX\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ntiny\r\n--XX--\r\n";
  EXPECT_EQ(**openai_model_of(type, form, true), "tiny");
  EXPECT_FALSE(openai_model_of(type, form.substr(0, 60), false)->has_value());
  EXPECT_FALSE(openai_model_of(type, form.substr(0, 60), true).ok());
  EXPECT_FALSE(openai_model_of("multipart/form-data", form, true).ok());
  EXPECT_FALSE(openai_model_of(kJson, form, true).ok());
}

TEST(OpenaiCallTest, NestingHasNoLimitAndNeedsNoStack) {
  std::string deep = R"({"messages": )" + std::string(500'000, '[');
  EXPECT_FALSE(openai_model_of(kJson, deep, true).ok());
  deep += std::string(500'000, ']') + R"(, "model": "tiny"})";
  EXPECT_EQ(model_of(deep), "tiny");
}

TEST(OpenaiCallTest, ItsPathsAreThoseOfTheApiAndNoneOfOurs) {
  for (const char* path :
       {"/v1/models", "/v1/models/", "/v1/models/org/tiny", "/v1/chat/completions",
        "/v1/completions", "/v1/embeddings", "/v1/audio/transcriptions", "/v1/images/edits",
        "/v1/messages", "/v1/realtime", "/v1/rerank"}) {
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
