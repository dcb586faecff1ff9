#include "edge/frontend/log_merge.h"

#include <gtest/gtest.h>

#include "edge/frontend/log_view.h"

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

TEST(LogMergeTest, WhatLiesBehindAStepComesAfterWhatLiesBefore) {
  LogPart before = part_of("a", {1, 9});
  LogPart behind = part_of("a", {4, 10});
  behind.asked = before.chunk.next_offset;
  behind.chunk.is_after_step = true;
  for (LogMark& mark : behind.chunk.marks) mark.offset += 1'000;
  behind.chunk.next_offset += 1'000;
  behind.chunk.end = behind.chunk.next_offset;
  const auto merged = merged_of({before, behind, part_of("b", {5, 11})});
  EXPECT_EQ(text_of(merged), "a1 b5 a9 a4 a10 b11 ");
  EXPECT_EQ(merged.next.text(), "a:1007,b:7");
  EXPECT_FALSE(merged.has_more);
  EXPECT_FALSE(merged.older_is_gone);
  // As long as not all before it is told the place lies there.
  before.now = behind.now = seconds(10);
  const auto first = merged_of({std::move(before), std::move(behind)}, seconds(3));
  EXPECT_EQ(text_of(first), "a1 ");
  EXPECT_EQ(first.next.text(), "a:3");
  EXPECT_TRUE(first.has_more);
}

TEST(LogMergeTest, WhatIsTooMuchBeforeAStepIsNotPassedOver) {
  LogPart before = part_of("a", std::vector<int>(kLogLines + 2, 1));
  LogPart behind = part_of("a", {4});
  behind.chunk.next_offset += 1'000'000;
  behind.chunk.end = behind.chunk.next_offset;
  const auto merged =
      merged_of({std::move(before), LogPart{.node = "a", .is_known = true}, behind});
  EXPECT_EQ(merged.lines.size(), kLogLines);
  EXPECT_EQ(merged.next.offset_at("a"), kLogLines * std::string("a1\n").size());
  EXPECT_TRUE(merged.has_more);
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

TEST(LogMergeTest, ALineThatItsNodesClockHasNotComeToDoesNotWait) {
  // Printed before that clock was set back.
  const auto merged = merged_of({part_of("a", {998, 5'000}), part_of("b", {1'000})}, seconds(1));
  EXPECT_EQ(text_of(merged), "a998 a5000 ");
}

TEST(LogMergeTest, OneAnswerHasSoManyLinesAtMost) {
  LogPart part = part_of("a", {});
  part.chunk.text = std::string(3 * kLogLines / 2, '\n');
  part.chunk.end = part.chunk.next_offset = part.chunk.text.size();
  LogPart rest = part;
  auto merged = merged_of({std::move(part), part_of("b", {1})});
  EXPECT_EQ(merged.lines.size(), kLogLines);
  EXPECT_TRUE(merged.has_more);
  EXPECT_EQ(merged.next.offset_at("a"), kLogLines);
  rest.chunk.text.erase(0, kLogLines);
  rest.asked = kLogLines;
  merged = merged_of({std::move(rest), part_of("b", {1})});
  EXPECT_EQ(merged.lines.size(), kLogLines / 2 + 1);
  EXPECT_FALSE(merged.has_more);
}

TEST(LogMergeTest, OneAnswerIsBoundedAlsoAsJson) {
  for (const std::string& unit : {std::string("\x01"), std::string("\xff\x01"),
                                  std::string("\x01\x01\"\x01\n"), std::string("\xe2\x82\xac")}) {
    std::string text;
    while (text.size() < kLogChunk) text += unit;
    std::string came;
    for (int i = 0; came.size() < text.size() && i < 100; ++i) {
      LogPart part = part_of("a", {});
      part.asked = came.size();
      part.chunk = {text.substr(came.size()), text.size(), {}, text.size()};
      std::vector<LogPart> parts;
      parts.push_back(std::move(part));
      LogReader::Answer answer;
      answer.log = merge_logs(std::move(parts), {}, {});
      ASSERT_FALSE(answer.log.lines.empty());
      for (const MergedLine& line : answer.log.lines) came += line.line.text;
      EXPECT_EQ(answer.log.next.offset_at("a"), came.size());
      EXPECT_EQ(answer.log.has_more, came.size() < text.size());
      EXPECT_LE(LogView({.is_json = true}).show(answer, false).size(), kLogShown + 100);
    }
    EXPECT_EQ(came, text);
  }
}

TEST(LogMergeTest, ACharacterIsNotCutWhereItsRestMayCome) {
  const auto with = [](const std::string& text, size_t not_given, bool waits) {
    LogPart part = part_of("a", {});
    part.chunk = {text, text.size(), {}, text.size() + not_given};
    std::vector<LogPart> parts;
    parts.push_back(std::move(part));
    parts.push_back(part_of("b", {1}));
    const auto merged = merge_logs(std::move(parts), {}, {.waits_for_characters = waits});
    return text_of(merged) + "@" + merged.next.text();
  };
  EXPECT_EQ(with("a\xe2\x82", 1, false), "a@a:1,b:0");
  // No other node's line waits for the rest.
  EXPECT_EQ(with("a\xe2\x82", 0, true), "ab1 @a:1,b:3");
  EXPECT_EQ(with("a\xe2\x82", 0, false),
            "a\xe2\x82"
            "b1 @a:3,b:3");
  EXPECT_EQ(with("a\xe2\n", 0, true), "a\xe2 b1 @a:3,b:3");
}

TEST(LogMergeTest, WhatIsGoneIsSaid) {
  LogPart part = part_of("a", {1});
  part.chunk.next_offset += 50;
  part.chunk.end += 50;
  part.chunk.marks[0].offset += 50;
  EXPECT_TRUE(merged_of({part}).older_is_gone);
  part.chunk.is_after_step = true;
  EXPECT_FALSE(merged_of({part}).older_is_gone) << "there was nothing before";
  part.chunk.is_after_step = false;
  part.asked = 50;
  EXPECT_FALSE(merged_of({part}).older_is_gone);
  // It was of a log that is there no more.
  part.asked = 500;
  EXPECT_TRUE(merged_of({part}).older_is_gone);
}

TEST(LogMergeTest, ANodeThatDoesNotAnswerKeepsItsPlace) {
  const auto from = NodeCursor::parse("a:1,b:7");
  ASSERT_TRUE(from.ok());
  const auto merged = merge_logs({part_of("a", {1})}, *from, {});
  EXPECT_EQ(merged.next.text(), "a:3,b:7");
}

TEST(NodeCursorTest, IsANumberOrOneForEachNode) {
  auto number = NodeCursor::parse("17");
  ASSERT_TRUE(number.ok());
  EXPECT_EQ(number->offset_at("b"), 0u);
  EXPECT_EQ(number->text(), "17");
  number->name_own("a");
  EXPECT_EQ(number->offset_at("a"), 17u);
  EXPECT_EQ(number->text_for("a"), "17");
  EXPECT_EQ(number->text(), "a:17");
  const auto list = NodeCursor::parse("a:1,b-2.c:20");
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list->offset_at("b-2.c"), 20u);
  EXPECT_EQ(list->offset_at("c"), 0u);
  EXPECT_EQ(list->text(), "a:1,b-2.c:20");
  EXPECT_EQ(list->text_for("a"), "a:1,b-2.c:20");
  EXPECT_EQ(NodeCursor::parse("")->text(), "0");
  for (const char* text : {"-1", "a", "a:", ":1", "a:x", "a:1,", ",", "1,2", "a:1,b",
                           "99999999999999999999", "a:99999999999999999999"}) {
    // A comma at the end is no harm.
    if (std::string_view(text) == "a:1,") continue;
    EXPECT_FALSE(NodeCursor::parse(text).ok()) << text;
  }
}

TEST(LogPartTest, IsReadAsItWasWritten) {
  LogPart part = part_of("a", {1, 2}, 9);
  part.chunk.text += "\xff\0 no text\n";
  part.chunk.next_offset = 100 + part.chunk.text.size();
  part.chunk.end = part.chunk.next_offset + 5;
  part.chunk.is_after_step = true;
  const auto again = read_log_part(encode_log_part(part));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->chunk.text, part.chunk.text);
  EXPECT_EQ(again->chunk.marks, part.chunk.marks);
  EXPECT_EQ(again->chunk.next_offset, part.chunk.next_offset);
  EXPECT_EQ(again->chunk.end, part.chunk.end);
  EXPECT_TRUE(again->chunk.is_after_step);
  EXPECT_EQ(again->now, kNow);
  EXPECT_TRUE(again->is_known);
}

TEST(LogPartTest, WhatIsNoneIsRefused) {
  const std::string good = R"({"known":true,"next":4,"end":4,"now":0,"marks":[[0,1]]})";
  ASSERT_TRUE(read_log_part(good + "\none\n").ok());
  for (const char* head : {"", "{}", "[]", R"({"known":1,"next":4,"end":4,"now":0,"marks":[]})",
                           R"({"known":true,"next":3,"end":4,"now":0,"marks":[]})",
                           R"({"known":true,"next":9,"end":4,"now":0,"marks":[]})",
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
  // It would stop the lines of all nodes for good.
  EXPECT_FALSE(
      read_log_part("{\"known\":true,\"next\":0,\"end\":9,\"now\":0,\"marks\":[]}\n").ok());
}

TEST(LogPartTest, WhatDoesNotFitTheQuestionIsRefused) {
  LogPart part = part_of("a", {1, 2, 3});
  EXPECT_TRUE(check_log_part(part, 9).ok());
  EXPECT_FALSE(check_log_part(part, 8).ok());
  part.asked = 3;
  EXPECT_FALSE(check_log_part(part, 9).ok());
  part.asked = 10;  // of another log: from the start
  EXPECT_TRUE(check_log_part(part, 9).ok());
}

TEST(LogPartTest, ItsMarksAreBounded) {
  LogPart part = part_of("a", {});
  const size_t most = 16 * 1024;
  for (uint64_t i = 0; i < 2 * most; ++i) part.chunk.marks.push_back({i, milliseconds(i)});
  part.chunk.text = std::string(2 * most, '\n');
  part.chunk.end = part.chunk.next_offset = part.chunk.text.size();
  bound_marks(part.chunk);
  EXPECT_EQ(part.chunk.marks.size(), most);
  EXPECT_EQ(part.chunk.next_offset, most);
  EXPECT_TRUE(part.chunk.has_more());
  EXPECT_TRUE(read_log_part(encode_log_part(part)).ok());
}

}  // namespace
}  // namespace lambent::frontend
