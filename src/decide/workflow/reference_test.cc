#include "decide/workflow/reference.h"

#include "decide/workflow/limits.h"
#include "decide/workflow/testing/testing.h"

namespace lambent::workflow {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kNames{"detect", "my-part"};

TEST(Reference, TextAndMeaningBelongTogether) {
  for (const char* text : {"$input", "$item.a", "$index", "$detect.boxes[0].x", "$my-part[12]",
                           R"($detect["a.b"][0]["\"$\u00e9"])"}) {
    const auto reference = parse_reference(text, kNames);
    ASSERT_TRUE(reference.ok()) << reference.error().message;
    const auto again = parse_reference(to_text(*reference, kNames), kNames);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, *reference) << text;
  }
  EXPECT_EQ(to_text(*parse_reference(R"($detect["boxes"][3]["a b"])", kNames), kNames),
            R"($detect.boxes[3]["a b"])");
}

TEST(Reference, WhatIsNoneIsRefusedInItsOwnWords) {
  const auto refusal = [](const std::string& text) {
    return parse_reference(text, kNames).error().message;
  };
  EXPECT_EQ(refusal("detect"), "'detect': a reference begins with '$'");
  EXPECT_THAT(refusal("$"), HasSubstr("a name is expected after '$'"));
  EXPECT_EQ(refusal("$detekt"),
            "'$detekt': there is no component 'detekt'; did you mean '$detect'?");
  EXPECT_EQ(refusal("$input."), "'$input.': a key is expected after '.'");
  EXPECT_THAT(refusal("$input[x]"), HasSubstr("a whole number or a key in quotes"));
  EXPECT_THAT(refusal("$input[4294967296]"), HasSubstr("a whole number or a key in quotes"));
  EXPECT_THAT(refusal("$input[1"), HasSubstr("a whole number or a key in quotes"));
  EXPECT_THAT(refusal("$input[\"a\""), HasSubstr("is missing"));
  EXPECT_THAT(refusal("$input[\"a\\"), HasSubstr("is missing"));
  EXPECT_THAT(refusal("$input.x and more"), HasSubstr("a reference stands alone in its text"));
  std::string steps = "$input";
  for (size_t i = 0; i <= limits::kReferenceSteps; ++i) steps += ".a";
  EXPECT_THAT(refusal(steps), HasSubstr("more than 32 steps"));
  EXPECT_THAT(refusal("$" + std::string(2000, 'a')), HasSubstr("at most 1024 characters"));
}

class FollowTest : public testing::Test {
 protected:
  std::string seen(const std::string& text) {
    const Scope scope{kNames, &input, results, &item, &index};
    const auto found = follow(*parse_reference(text, kNames), scope);
    return found.ok() ? to_text(**found) : found.error().message;
  }
  bool wanted(const std::string& reference, Comparison comparison, Value value = nullptr) {
    const Scope scope{kNames, &input, results, &item, &index};
    const auto answer =
        holds({*parse_reference(reference, kNames), comparison, {std::move(value)}}, scope);
    EXPECT_TRUE(answer.ok()) << (answer.ok() ? "" : answer.error().message);
    return answer.ok() && *answer;
  }

  Value input = {{"n", 3}, {"none", nullptr}, {"text", "b"}, {"list", {1, 2}}};
  Value detect = {{"boxes", {{{"x", 1.5}}, {{"x", 2}}}}};
  Value skipped;
  Value item = "element";
  Value index = 7;
  std::vector<const Value*> results{&detect, &skipped};
};

TEST_F(FollowTest, ReferencesBecomeValuesWithTheirTypes) {
  EXPECT_EQ(seen("$detect.boxes[1].x"), "2");
  EXPECT_EQ(seen("$input.list"), "[1,2]");
  EXPECT_EQ(seen("$item"), "\"element\"");
  EXPECT_EQ(seen("$index"), "7");
}

TEST_F(FollowTest, WhatIsMissingIsNamedAndNullGoesOn) {
  EXPECT_EQ(seen("$detect.boxes[2].x"), "$detect.boxes[2].x: the list has 2 entries");
  EXPECT_EQ(seen("$input.m"), "$input.m: there is no key 'm'");
  EXPECT_EQ(seen("$input.n.x"), "$input.n.x: an object is expected, this is a number");
  EXPECT_EQ(seen("$input[0]"), "$input[0]: a list is expected, this is an object");
  EXPECT_EQ(seen("$my-part.anything[5]"), "null");
  EXPECT_EQ(seen("$input.none.x"), "null");
}

TEST_F(FollowTest, ConditionsAskForTruthAndOrder) {
  EXPECT_TRUE(wanted("$input.n", Comparison::kTrue));
  EXPECT_FALSE(wanted("$my-part", Comparison::kTrue));
  EXPECT_TRUE(wanted("$my-part", Comparison::kNotTrue));
  EXPECT_FALSE(wanted("$input.not_there", Comparison::kTrue));
  EXPECT_TRUE(wanted("$input.n", Comparison::kEqual, 3.0));
  EXPECT_TRUE(wanted("$input.n", Comparison::kUnequal, "3"));
  EXPECT_TRUE(wanted("$input.n", Comparison::kMore, 2));
  EXPECT_FALSE(wanted("$input.n", Comparison::kLess, 3));
  EXPECT_TRUE(wanted("$input.n", Comparison::kAtMost, 3));
  EXPECT_TRUE(wanted("$input.text", Comparison::kAtLeast, "a"));
  EXPECT_FALSE(wanted("$my-part", Comparison::kMore, 0));
  EXPECT_FALSE(wanted("$my-part", Comparison::kAtMost, 0));
  const Scope scope{kNames, &input, results, &item, &index};
  const auto answer =
      holds({*parse_reference("$input.n", kNames), Comparison::kLess, {Value("x")}}, scope);
  EXPECT_EQ(answer.error().message,
            "when: $input.n is a number and cannot be put in an order with text");
}

TEST(Value, OnlySoMuchIsBuilt) {
  EXPECT_TRUE(parse_value("").value().is_null());
  EXPECT_FALSE(parse_value("{1}").ok());
  const std::string deep(limits::kValueDepth, '[');
  EXPECT_TRUE(parse_value(deep + std::string(deep.size(), ']')).ok());
  EXPECT_THAT(parse_value("[" + deep + "]" + std::string(deep.size(), ']')).error().message,
              HasSubstr("nested more than 128 deep"));
  EXPECT_TRUE(parse_value("\"" + std::string(1000, '[') + "\\\"[\"").ok());
}

TEST(Value, ManySmallValuesTakeMoreThanTheirText) {
  const std::string small = "[" + std::string(999 * 3, ' ') + "[]]";
  std::string many = "[[]";
  for (int i = 1; i < 1000; ++i) many += ",[]";
  many += "]";
  EXPECT_GE(memory_of(*parse_value(many)).count, 10 * many.size());
  EXPECT_LE(memory_of(*parse_value(small)).count, 200u);
  EXPECT_GE(memory_of(Value(std::string(5000, 'x'))).count, 5000u);
  EXPECT_GE(memory_of(*parse_value(R"({"a":1,"b":{}})")).count, 200u);
}

TEST_F(FollowTest, ABareReferenceIsNotCopied) {
  const Scope scope{kNames, &input, results, &item, &index};
  Value made;
  const Template bare{*parse_reference("$input.list", kNames)};
  EXPECT_EQ(*refer(bare, scope, "when.value", made), &input["list"]);
}

TEST(Value, TruthIsWhatPythonSays) {
  for (const char* text : {"null", "false", "0", "0.0", "\"\"", "[]", "{}"}) {
    EXPECT_FALSE(is_true(*parse_value(text))) << text;
  }
  for (const char* text : {"true", "-1", "0.5", "\"0\"", "[0]", "{\"a\":null}"}) {
    EXPECT_TRUE(is_true(*parse_value(text))) << text;
  }
}

}  // namespace
}  // namespace lambent::workflow
