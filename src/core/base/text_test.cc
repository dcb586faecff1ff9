#include <gtest/gtest.h>

#include <string>

#include "core/base/base64.h"
#include "core/base/spelling.h"

namespace lambent {
namespace {

TEST(Base64, GoesBothWays) {
  for (const std::string text : {"", "f", "fo", "foo", "foob", "fooba", "foobar"}) {
    EXPECT_EQ(base64_decode(base64_encode(text)), text);
  }
  EXPECT_EQ(base64_encode("fooba"), "Zm9vYmE=");
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  EXPECT_EQ(base64_decode(base64_encode(all)), all);
}

TEST(Base64, IsStrict) {
  for (const char* text :
       {"Zg", "Zg=", "Z===", "Zh==", "Zg==Zg==", "Z g=", "Zg=a", "====", "Zm9*"}) {
    EXPECT_EQ(base64_decode(text), std::nullopt) << text;
  }
}

TEST(EditDistance, CountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("same", "same"), 0u);
  EXPECT_EQ(edit_distance("nmae", "name"), 1u);
}

TEST(ClosestWord, IsAKnownWordThatIsNear) {
  constexpr std::string_view kWords[] = {"handler", "memory", "name"};
  EXPECT_EQ(closest_word("hadler", kWords), "handler");
  EXPECT_EQ(closest_word("nmae", kWords), "name");
  EXPECT_FALSE(closest_word("colour", kWords).has_value());
}

TEST(Suggestion, NamesTheWordThatWasMeantAsUsersWriteIt) {
  EXPECT_EQ(suggestion("json"), "; did you mean 'json'?");
  EXPECT_EQ(suggestion("json", "--"), "; did you mean '--json'?");
  EXPECT_EQ(suggestion(std::nullopt, "--"), "");
}

TEST(DidYouMean, SuggestsTheClosestKnownWordOrNothing) {
  const std::vector<std::string> words{"handler", "memory"};
  EXPECT_EQ(did_you_mean("hadler", words), "; did you mean 'handler'?");
  EXPECT_EQ(did_you_mean("hadler", words, "$"), "; did you mean '$handler'?");
  EXPECT_EQ(did_you_mean("colour", words), "");
  EXPECT_EQ(did_you_mean("hadler", std::vector<std::string>()), "");
}

}  // namespace
}  // namespace lambent
