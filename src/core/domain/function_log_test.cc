#include "core/domain/function_log.h"

#include <gtest/gtest.h>

namespace lambent {
namespace {

LogChunk chunk_at(uint64_t first, std::string text, std::vector<LogMark> marks) {
  const uint64_t next = first + text.size();
  return {std::move(text), next, std::move(marks), next};
}

TEST(FunctionLogTest, LinesHaveTheTimeOfTheLastMarkBefore) {
  const LogChunk chunk =
      chunk_at(10, "one\ntwo\nhalf", {{14, seconds(2)}, {18, milliseconds(2'500)}});
  const auto lines = lines_of(chunk);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].text, "one\n");
  EXPECT_EQ(lines[0].at, std::nullopt);
  EXPECT_EQ(lines[1].at, seconds(2));
  EXPECT_EQ(lines[2].text, "half");
  EXPECT_EQ(lines[2].at, milliseconds(2'500));
  EXPECT_TRUE(lines_of(LogChunk()).empty());
}

TEST(FunctionLogTest, AMarkBeforeTheTextTellsOfItsFirstLine) {
  const LogChunk chunk = chunk_at(10, "rest\n", {{3, seconds(1)}});
  EXPECT_EQ(lines_of(chunk)[0].at, seconds(1));
}

TEST(FunctionLogTest, TimesAreTextAndBack) {
  const Duration at = seconds(1'795'973'792) + milliseconds(7);
  EXPECT_EQ(log_time_text(at), "2026-11-29T17:36:32.007Z");
  EXPECT_EQ(log_time_in("2026-11-29T17:36:32.007Z"), at);
  for (const char* text : {"", "now", "2026-11-29", "2026-11-29T17:36:32", "-",
                           "9999-12-31T23:59:59.999Z", "0000-01-01T00:00:00.000Z"}) {
    EXPECT_EQ(log_time_in(text), std::nullopt) << text;
  }
  EXPECT_EQ(log_time_text(-seconds(1)), "?");
}

TEST(FunctionLogTest, LinesOfSeveralNodesAreNamedAndNeverRunIntoEachOther) {
  LogText text({.names_nodes = true, .shows_times = false});
  std::string shown;
  text.add("a", {std::nullopt, "one\n"}, shown);
  text.add("a", {std::nullopt, "half"}, shown);
  text.add("a", {std::nullopt, " a line"}, shown);
  text.add("b", {std::nullopt, "two\n"}, shown);
  text.add("a", {std::nullopt, "more"}, shown);
  text.note("[a note]", shown);
  text.add("a", {std::nullopt, "\n"}, shown);
  EXPECT_EQ(shown, "a | one\na | half a line\nb | two\na | more\n[a note]\na | \n");
}

TEST(FunctionLogTest, TimesAreShownOnceForALine) {
  LogText text({.names_nodes = false, .shows_times = true});
  std::string shown;
  text.add("", {seconds(0), "half"}, shown);
  text.add("", {seconds(5), " a line\n"}, shown);
  text.add("", {std::nullopt, "old\n"}, shown);
  EXPECT_EQ(shown, "1970-01-01T00:00:00.000Z half a line\n- old\n");
}

}  // namespace
}  // namespace lambent
