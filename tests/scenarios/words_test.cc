#include "tests/scenarios/words.h"

#include <gtest/gtest.h>

namespace lambent::scenario {
namespace {

TEST(Words, AreSplitAtSpacesAndEndBeforeAComment) {
  Words words("  at 3s\tsubmit f # not this");
  EXPECT_TRUE(words.take("at"));
  EXPECT_EQ(words.duration(), seconds(3));
  EXPECT_FALSE(words.take("f"));
  EXPECT_EQ(words.take_any(), "submit");
  words.expect("f");
  EXPECT_TRUE(words.done());
  EXPECT_THROW(words.take_any(), Failure);
}

TEST(Words, InQuotationMarksAreOneEvenWithoutALetter) {
  Words words(R"(say "a # b" "")");
  words.expect("say");
  EXPECT_EQ(words.take_any(), "a # b");
  EXPECT_EQ(words.take_any(), "");
  EXPECT_TRUE(words.done());
  EXPECT_THROW(Words(R"(say "a)"), Failure);
}

TEST(Words, AreGivenAsTheyAreWrittenUpToTheEndOfTheLine) {
  Words words(R"(input {"box": "$item",  "n": 1}   # of the list)");
  words.expect("input");
  EXPECT_EQ(words.rest(), R"({"box": "$item",  "n": 1})");
  EXPECT_TRUE(words.done());
  EXPECT_THROW(words.rest(), Failure);
}

TEST(Words, ThatAreNoTimeSizeOrNumberAreErrors) {
  EXPECT_EQ(Words("250ms").duration(), milliseconds(250));
  EXPECT_EQ(Words("2min").duration(), seconds(120));
  EXPECT_THROW(Words("3").duration(), Failure);
  EXPECT_THROW(Words("soon").duration(), Failure);
  EXPECT_EQ(Words("2GiB").bytes(), Bytes::gib(2));
  EXPECT_THROW(Words("big").bytes(), Failure);
  EXPECT_EQ(Words("7").count(), 7u);
  EXPECT_THROW(Words("many").count(), Failure);
  EXPECT_THROW(Words("f").expect("g"), Failure);
}

}  // namespace
}  // namespace lambent::scenario
