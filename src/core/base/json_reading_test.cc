#include "core/base/json_reading.h"
#include "core/base/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lambent {
namespace {

template <typename T>
void expect_refused(const Result<T>& result, const std::string& message) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(result.error().message, message);
}

Result<Json> parse(std::string_view text, Bytes most = Bytes::kib(1)) {
  return parse_document(text, most, {.subject = "the menu", .most_depth = 3});
}

TEST(DocumentPlace, NamesMembersAndItemsFromTheDocumentDown) {
  EXPECT_EQ(member_place("", "steps"), "steps");
  EXPECT_EQ(item_place(member_place("", "steps"), 2), "steps[2]");
  EXPECT_EQ(member_place("steps[2]", "input"), "steps[2].input");
  EXPECT_EQ(invalid_at("steps[2]", "is empty").message, "steps[2]: is empty");
}

TEST(ParseDocument, KeepsTheOrderOfKeys) {
  const auto root = parse(R"({"z": 1, "a": [2]})");
  ASSERT_TRUE(root.ok());
  EXPECT_EQ(root->dump(), R"({"z":1,"a":[2]})");
}

TEST(ParseDocument, RefusesWhatIsTooLargeTooDeepWrongOrTwice) {
  expect_refused(parse("[1, 2, 3]", Bytes(8)), "the menu: is larger than 8 B");
  EXPECT_TRUE(parse("[1, 2, 3]", Bytes(9)).ok());
  for (const char* text : {"", "{", "[[[[1]]]]", R"({"a": 1, "a": 2})", "[1] 2", "\"\xff\""}) {
    EXPECT_FALSE(parse(text).ok()) << text;
  }
  EXPECT_TRUE(parse("[[[1]]]").ok());
}

TEST(JsonNestsAtMost, CountsListsAndObjectsButNoBracketsInTexts) {
  EXPECT_TRUE(json_nests_at_most(R"([{"a": [1]}, [[2]]])", 3));
  EXPECT_FALSE(json_nests_at_most(R"([{"a": [1]}, [[2]]])", 2));
  EXPECT_TRUE(json_nests_at_most(R"(["[[[", "\"[[[", "\\"])", 1));
  EXPECT_FALSE(json_nests_at_most(R"(["\\", [1]])", 1));
  EXPECT_TRUE(json_nests_at_most("]]][", 1));
  EXPECT_TRUE(json_nests_at_most("", 0));
}

TEST(CheckKeys, RefusesTheFirstUnknownKeyAndSuggestsOne) {
  EXPECT_TRUE(check_keys({{"name", 1}}, "x", {"name", "input"}).ok());
  expect_refused(check_keys({{"name", 1}, {"inptu", 1}, {"b", 1}}, "x", {"name", "input"}),
                 "x: there is no 'inptu' here; did you mean 'input'?");
  expect_refused(check_keys({{"colour", 1}}, "x", {"name"}), "x: there is no 'colour' here");
  expect_refused(check_keys(Json::array({"name"}), "x", {"name"}), "x: an object is expected");
}

TEST(CheckKeys, ShowsOnlyTheBeginningOfALongKey) {
  const Json object = {{std::string(1000, 'k'), 1}};
  expect_refused(check_keys(object, "x", {"name"}),
                 "x: there is no '" + std::string(64, 'k') + "' here");
}

TEST(RequiredMember, IsTheValueOrAnErrorThatItIsMissing) {
  const Json object = {{"name", nullptr}};
  const auto found = required_member(object, "x", "name");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, &object.at("name"));
  expect_refused(required_member(object, "x", "input"), "x: 'input' is missing");
}

TEST(RequiredList, HasOneElementAtLeastAndNoMoreThanTheLimit) {
  const Json object = {{"none", Json::array()}, {"two", {1, 2}}, {"text", "ab"}};
  EXPECT_TRUE(required_list(object, "x", "two", "x.two", 2).ok());
  expect_refused(required_list(object, "x", "two", "x.two", 1),
                 "x.two: has 2 entries; at most 1 are taken");
  expect_refused(required_list(object, "x", "none", "x.none", 2),
                 "x.none: a list of at least one is expected");
  expect_refused(required_list(object, "x", "text", "x.text", 2),
                 "x.text: a list of at least one is expected");
  expect_refused(required_list(object, "x", "other", "x.other", 2), "x: 'other' is missing");
}

TEST(FlagMember, IsFalseIfMissingAndRefusesWhatIsNoFlag) {
  const Json object = {{"yes", true}, {"no", false}, {"one", 1}};
  EXPECT_TRUE(*flag_member(object, "x", "yes"));
  EXPECT_FALSE(*flag_member(object, "x", "no"));
  EXPECT_FALSE(*flag_member(object, "x", "other"));
  expect_refused(flag_member(object, "x", "one"), "x.one: true or false is expected");
}

TEST(NameValue, TakesLettersDigitsDashAndUnderscoreUpToTheLength) {
  EXPECT_EQ(*name_value("a-Z_9", "x", 5), "a-Z_9");
  expect_refused(name_value(7, "x", 5), "x: text is expected");
  for (const char* bad : {"", "a-Z_99", "a b", "a.b", "\xc3\xa9"}) {
    expect_refused(name_value(bad, "x", 5), "x: 1 to 5 letters, digits, '-' and '_' are expected");
  }
}

TEST(IsText, TakesTextWithoutControlCharactersUpToTheLength) {
  EXPECT_TRUE(is_text("a b\xc3\xa9", 5));
  for (const char* bad : {"", "a b cd", "a\nb", "\x7f"}) EXPECT_FALSE(is_text(bad, 5)) << bad;
}

TEST(NumberValue, TakesNumbersWithinTheRange) {
  EXPECT_EQ(*number_value(0, "x", 0, 1.5), 0);
  EXPECT_EQ(*number_value(1.5, "x", 0, 1.5), 1.5);
  for (const Json& bad : {Json(-1), Json(1.6), Json("1"), Json(nullptr), Json(std::nan(""))}) {
    expect_refused(number_value(bad, "x", 0, 1.5), "x: a number from 0.0 to 1.5 is expected");
  }
}

TEST(WholeValue, TakesWholeNumbersWithinTheRange) {
  EXPECT_EQ(*whole_value(1U, "x", 1, 9), 1U);
  EXPECT_EQ(*whole_value(9U, "x", 1, 9), 9U);
  for (const Json& bad : {Json(0U), Json(10U), Json(-1), Json(1.0), Json(true), Json("1")}) {
    expect_refused(whole_value(bad, "x", 1, 9), "x: a whole number from 1 to 9 is expected");
  }
}

TEST(JsonText, IsOneLineInTheOrderOfItsKeysAndReplacesWhatIsNoText) {
  EXPECT_EQ(json_text(Json{{"b", 1}, {"a", {1, 2}}}), R"({"b":1,"a":[1,2]})");
  EXPECT_EQ(json_text(nlohmann::json{{"b", 1}, {"a", nullptr}}), R"({"a":null,"b":1})");
  EXPECT_EQ(json_text(nlohmann::json("a\xff")), "\"a\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace lambent
