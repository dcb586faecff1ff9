#include "core/domain/command_line.h"

#include <gtest/gtest.h>

#include "core/domain/limits.h"

namespace lambent {
namespace {

using Words = std::vector<std::string>;

TEST(CommandLine, SeparatesItsWordsAtBlanks) {
  EXPECT_EQ(command_words("  python3 server.py   --port 8080 ").value(),
            (Words{"python3", "server.py", "--port", "8080"}));
  EXPECT_EQ(command_words("").value(), Words{});
}

TEST(CommandLine, KeepsBlanksAndNothingInQuotes) {
  EXPECT_EQ(command_words(R"(./server "a b" "" c\ d x"y z")").value(),
            (Words{"./server", "a b", "", "c d", "xy z"}));
}

TEST(CommandLine, GivesBackWhatItWasMadeFrom) {
  const Words words{"./my server", "", "quote\"inside", "back\\slash", "plain", "x \"y\" \\"};
  EXPECT_EQ(command_words(command_text(words)).value(), words);
}

TEST(CommandLine, RefusesWhatDoesNotEndAndWhatCannotBeShown) {
  EXPECT_EQ(command_words("a \"b").error().message, "the command has a quote that does not end");
  EXPECT_EQ(command_words("a\\").error().message, "the command ends with a backslash");
  EXPECT_FALSE(command_words("a\nb").ok());
}

TEST(CommandLine, HasABoundedNumberOfWords) {
  std::string text;
  for (size_t i = 0; i < limits::kCommandWords; ++i) text += "a ";
  EXPECT_TRUE(command_words(text).ok());
  EXPECT_FALSE(command_words(text + "a").ok());
}

}  // namespace
}  // namespace lambent
