#include "edge/frontend/log_merge.h"

#include <gtest/gtest.h>

namespace lambent::frontend {
namespace {

constexpr Duration kNow = seconds(1'000);

// One line a mark, "x5\n" at the fifth second.
LogPart part_of(std::string node, const std::vector<int>& times, size_t not_given = 0) {
  LogPart part{.node = std::move(node), .is_known = true, .chunk = {}, .now = kNow};
  for (const int at : times) {
    part.chunk.marks.push_back({part.chunk.text.size(), seconds(at)});
    part.chunk.text += part.node + std::to_string(at) + "\n";
  }
  part.chunk.next_offset = part.chunk.text.size();
  part.chunk.end = part.chunk.next_offset + not_given;
  return part;
}

std::string text_of(const MergedLog& merged) {
  std::string text;
  for (const MergedLine& line : merged.lines) {
    EXPECT_EQ(line.line.text.substr(0, line.node->size()), *line.node);
    text += line.line.text;
    if (text.ends_with('\n')) text.back() = ' ';
  }
  return text;
}

MergedLog merged_of(std::vector<LogPart> parts, Duration settle = {}) {
  return merge_logs(std::move(parts), {}, {.settle = settle});
}

TEST(LogMergeTest, LinesComeInOrderOfTime) {
  const auto merged = merged_of({part_of("a", {1, 4, 5}), part_of("b", {2, 3, 6})});
  EXPECT_EQ(text_of(merged), "a1 b2 b3 a4 a5 b6 ");
  EXPECT_EQ(merged.next.text(), "a:9,b:9");
  EXPECT_FALSE(merged.has_more);
  EXPECT_FALSE(merged.older_is_gone);
}

TEST(LogMergeTest, ANodesLinesStayInItsOrderAlsoWhereItsClockWasSetBack) {
  const auto merged = merged_of({part_of("a", {1, 9, 2, 10}), part_of("b", {5, 11})});
  EXPECT_EQ(text_of(merged), "a1 b5 a9 a2 a10 b11 ");
}

TEST(LogMergeTest, LinesWithoutTimesComeFirst) {
  LogPart old = part_of("a", {});
  old.chunk = {"a\na\n", 4, {}, 4};
  EXPECT_EQ(text_of(merged_of({part_of("b", {1}), std::move(old)})), "a a b1 ");
}

TEST(LogMergeTest, ANodeThatHasMoreHoldsUpLaterLinesOfOthers) {
  const auto merged = merged_of({part_of("a", {1, 2}, 100), part_of("b", {1, 3})});
  EXPECT_EQ(text_of(merged), "a1 b1 a2 ");
  EXPECT_TRUE(merged.has_more);
  EXPECT_EQ(merged.next.text(), "a:6,b:3");
}

TEST(LogMergeTest, ALineThatIsCutStaysWhereTheRestIs) {
  LogPart part = part_of("a", {1, 2}, 100);
  part.chunk.text += "a-half";
  part.chunk.next_offset += 6;
  auto merged = merged_of({std::move(part)});
  EXPECT_EQ(text_of(merged), "a1 a2 ");
  EXPECT_EQ(merged.next.text(), "a:6");
  // One that fills all that came is no reason to wait.
  LogPart long_line = part_of("a", {});
  long_line.chunk = {"a-long", 6, {}, 100};
  merged = merged_of({std::move(long_line)});
  EXPECT_EQ(text_of(merged), "a-long");
  EXPECT_TRUE(merged.has_more);
}

TEST(LogMergeTest, YoungLinesWaitByTheirOwnNodesClock) {
  LogPart behind = part_of("b", {690, 700});
  behind.now = seconds(700);
  const auto merged = merged_of({part_of("a", {998, 1'000}), std::move(behind)}, seconds(1));
  EXPECT_EQ(text_of(merged), "b690 a998 ");
  EXPECT_TRUE(merged.has_more);
}

TEST(LogMergeTest, WhatIsGoneIsSaid) {
  LogPart part = part_of("a", {1});
  part.chunk.next_offset += 50;
  part.chunk.end += 50;
  part.chunk.marks[0].offset += 50;
  EXPECT_TRUE(merged_of({part}).older_is_gone);
  part.asked = 50;
  EXPECT_FALSE(merged_of({part}).older_is_gone);
}

TEST(LogMergeTest, ANodeThatDoesNotAnswerKeepsItsPlace) {
  const auto from = LogCursor::parse("a:1,b:7");
  ASSERT_TRUE(from.ok());
  const auto merged = merge_logs({part_of("a", {1})}, *from, {});
  EXPECT_EQ(merged.next.text(), "a:3,b:7");
}

TEST(LogCursorTest, IsANumberOrOneForEachNode) {
  auto number = LogCursor::parse("17");
  ASSERT_TRUE(number.ok());
  EXPECT_EQ(number->offset_at("b"), 0u);
  EXPECT_EQ(number->text(), "17");
  number->name_own("a");
  EXPECT_EQ(number->offset_at("a"), 17u);
  EXPECT_EQ(number->text_for("a"), "17");
  EXPECT_EQ(number->text(), "a:17");
  const auto list = LogCursor::parse("a:1,b-2.c:20");
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list->offset_at("b-2.c"), 20u);
  EXPECT_EQ(list->offset_at("c"), 0u);
  EXPECT_EQ(list->text(), "a:1,b-2.c:20");
  EXPECT_EQ(list->text_for("a"), "a:1,b-2.c:20");
  EXPECT_EQ(LogCursor::parse("")->text(), "0");
  for (const char* text : {"-1", "a", "a:", ":1", "a:x", "a:1,", ",", "1,2", "a:1,b",
                           "99999999999999999999", "a:99999999999999999999"}) {
    // A comma at the end is no harm.
    if (std::string_view(text) == "a:1,") continue;
    EXPECT_FALSE(LogCursor::parse(text).ok()) << text;
  }
}

TEST(LogPartTest, IsReadAsItWasWritten) {
  LogPart part = part_of("a", {1, 2}, 9);
  part.chunk.text += "\xff\0 no text\n";
  part.chunk.next_offset = 100 + part.chunk.text.size();
  part.chunk.end = part.chunk.next_offset + 5;
  const auto again = read_log_part(encode_log_part(part));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->chunk.text, part.chunk.text);
  EXPECT_EQ(again->chunk.marks, part.chunk.marks);
  EXPECT_EQ(again->chunk.next_offset, part.chunk.next_offset);
  EXPECT_EQ(again->chunk.end, part.chunk.end);
  EXPECT_EQ(again->now, kNow);
  EXPECT_TRUE(again->is_known);
}

TEST(LogPartTest, WhatIsNoneIsRefused) {
  const std::string good = R"({"known":true,"next":4,"end":4,"now":0,"marks":[[0,1]]})";
  ASSERT_TRUE(read_log_part(good + "\none\n").ok());
  for (const char* head : {"", "{}", "[]", R"({"known":1,"next":4,"end":4,"now":0,"marks":[]})",
                           R"({"known":true,"next":3,"end":4,"now":0,"marks":[]})",
                           R"({"known":true,"next":-4,"end":4,"now":0,"marks":[]})",
                           R"({"known":true,"next":4,"end":4,"now":0})",
                           R"({"known":true,"next":4,"end":4,"now":9999999999999999,"marks":[]})",
                           R"({"known":true,"next":4,"end":4,"now":0,"marks":[[4,1]]})",
                           R"({"known":true,"next":4,"end":4,"now":0,"marks":[[1,1],[0,2]]})",
                           R"({"known":true,"next":4,"end":4,"now":0,"marks":[[1,-1]]})",
                           R"({"known":true,"next":4,"end":4,"now":0,"marks":[1]})"}) {
    EXPECT_FALSE(read_log_part(std::string(head) + "\none\n").ok()) << head;
  }
  EXPECT_FALSE(read_log_part(good).ok());  // no end of the head
}

}  // namespace
}  // namespace lambent::frontend
