// TableReader: the first mistake stays, and a key is known once it was asked for.
#include "edge/cli/table_reader.h"

#include <gmock/gmock.h>

namespace lambent::cli {
namespace {

using testing::ElementsAre;

class TableReaderTest : public testing::Test {
 protected:
  TableReader reader(std::string_view text) {
    table_ = toml::parse(text).table();
    return {table_, "part.", file_};
  }

  const std::string file_ = "f";
  toml::table table_;
};

TEST_F(TableReaderTest, AMissingKeyLeavesTheValueAsItWas) {
  TableReader empty = reader("");
  std::string text = "before";
  Duration duration = seconds(7);
  MemoryMode mode = MemoryMode::kUvm;
  empty.read("text", text);
  empty.read("duration", duration);
  empty.read("mode", mode);
  EXPECT_EQ(text, "before");
  EXPECT_EQ(duration, seconds(7));
  EXPECT_EQ(mode, MemoryMode::kUvm);
  EXPECT_TRUE(empty.verdict().ok());
}

TEST_F(TableReaderTest, TheFirstMistakeIsReported) {
  TableReader wrong = reader("number = 'x'\ntext = 1");
  std::string text;
  double number = 0;
  wrong.read("text", text);
  wrong.read("number", number);
  EXPECT_EQ(wrong.verdict().error().message, "f line 2: part.text must be text in quotes");
}

TEST_F(TableReaderTest, ADurationFitsTheClockWhateverIsWritten) {
  for (const auto& [text, expected] :
       {std::pair("d = 1e300", seconds(1'000'000)), std::pair("d = -1e300", seconds(-1)),
        std::pair("d = nan", seconds(-1)), std::pair("d = inf", seconds(-1))}) {
    Duration duration{};
    reader(text).read("d", duration);
    EXPECT_EQ(duration, expected) << text;
  }
}

TEST_F(TableReaderTest, WarnsOfKeysThatWereNotAskedFor) {
  TableReader typo = reader("share = 1\nshares = 2\nother = 3\nunlike_any = 4");
  unsigned share = 0;
  typo.read("share", share);
  constexpr std::string_view kOthers[] = {"other"};
  typo.know(kOthers);
  std::vector<std::string> warnings;
  typo.warn_of_unknown(warnings);
  EXPECT_THAT(warnings, ElementsAre("f line 2: no key 'part.shares'; did you mean 'part.share'?",
                                    "f line 4: no key 'part.unlike_any'; [part] has share, other"));
}

}  // namespace
}  // namespace lambent::cli
