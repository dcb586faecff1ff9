#include "core/domain/openai_models.h"

#include <gmock/gmock.h>

namespace lambent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(OpenaiModelsTest, NamesComeBackAsTheyWereWritten) {
  const std::vector<std::string> names = {"tiny", "org/model-7B:latest", "größer"};
  const auto text = openai_models_text(names);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*parse_openai_models(*text), names);
  EXPECT_THAT(*parse_openai_models(""), IsEmpty());
}

TEST(OpenaiModelsTest, WhatIsNoListOfNamesIsRefused) {
  for (const std::string text : {"a,", ",a", "a,,b", "a b", "a,b,a", "a\n"}) {
    EXPECT_EQ(parse_openai_models(text).error().code, ErrorCode::kInvalidArgument) << text;
  }
  EXPECT_TRUE(parse_openai_models(std::string(kMostOpenaiModelName, 'x')).ok());
  EXPECT_FALSE(parse_openai_models(std::string(kMostOpenaiModelName + 1, 'x')).ok());
  std::vector<std::string> many;
  for (size_t i = 0; i < kMostOpenaiModels; ++i) many.push_back(std::to_string(i));
  EXPECT_TRUE(openai_models_text(many).ok());
  many.push_back("one more");
  EXPECT_THAT(openai_models_text(many).error().message, HasSubstr("at most 64 models"));
}

TEST(OpenaiModelsTest, OnlyAnHttpFunctionServesModels) {
  FunctionSpec spec;
  spec.tags[std::string(kOpenaiModelsTag)] = "a,b";
  EXPECT_THAT(openai_models(spec), IsEmpty());
  spec.kind = FunctionKind::kHttp;
  EXPECT_THAT(openai_models(spec), ElementsAre("a", "b"));
  spec.tags.clear();
  EXPECT_THAT(openai_models(spec), IsEmpty());
}

}  // namespace
}  // namespace lambent
