#include "node/worker/log_store.h"
#include "core/domain/limits.h"

#include <gtest/gtest.h>

namespace lambent::worker {
namespace {

const FunctionId kF{1};
constexpr Duration kAt = seconds(1'000);

TEST(LogStore, ReadsOnFromTheOffsetItGave) {
  LogStore logs;
  logs.append(kF, "one\n", kAt);
  const auto first = logs.read(kF, 0, 100);
  EXPECT_EQ(first.text, "one\n");
  logs.append(kF, "two\n", kAt);
  const auto second = logs.read(kF, first.next_offset, 100);
  EXPECT_EQ(second.text, "two\n");
  EXPECT_EQ(logs.read(kF, second.next_offset, 100).text, "");
}

TEST(LogStore, KeepsTheNewestBytesAndItsOffsetsStayTrue) {
  LogStore logs(Bytes(10));
  for (int i = 0; i < 100; ++i) logs.append(kF, std::to_string(i % 10), kAt);
  const auto chunk = logs.read(kF, 0, 1000);
  EXPECT_GE(chunk.text.size(), 10u);
  EXPECT_LE(chunk.text.size(), 20u);
  EXPECT_EQ(chunk.text.back(), '9');
  EXPECT_EQ(chunk.next_offset, 100u);
}

TEST(LogStore, AnOffsetBehindTheEndIsOfAnotherLogAndBeginsThisOne) {
  LogStore logs;
  logs.append(kF, "abc", kAt);
  EXPECT_EQ(logs.read(kF, 3, 10).text, "");
  EXPECT_EQ(logs.read(kF, 1000, 10).text, "abc");
  EXPECT_EQ(logs.read(kF, 1000, 10).next_offset, 3u);
  // What it prints later is before that offset.
  const LogChunk none = logs.read(FunctionId(9), 1000, 10);
  EXPECT_EQ(none.text, "");
  EXPECT_EQ(none.next_offset, 0u);
}

TEST(LogStore, ALineHasTheTimeOfItsBegin) {
  LogStore logs;
  logs.append(kF, "one\nhalf a", seconds(1));
  logs.append(kF, " line\nthree\nfour\n", seconds(2));
  logs.append(kF, "five\n", seconds(3));
  logs.append(kF, "six\n", seconds(3) + microseconds(300));
  const LogChunk chunk = logs.read(kF, 0, 1000);
  EXPECT_EQ(chunk.marks,
            (std::vector<LogMark>{{0, seconds(1)}, {16, seconds(2)}, {27, seconds(3)}}));
  EXPECT_EQ(chunk.end, 36u);
  // From the middle of a line: its own time.
  EXPECT_EQ(logs.read(kF, 8, 10).marks, (std::vector<LogMark>{{0, seconds(1)}, {16, seconds(2)}}));
  EXPECT_EQ(logs.read(kF, 20, 2).marks, (std::vector<LogMark>{{16, seconds(2)}}));
}

TEST(LogStore, TimesOfShortLinesAreBoundedAndStayTrue) {
  constexpr size_t kLimit = 10'000;
  LogStore logs{Bytes(kLimit)};
  for (int i = 0; i < 100'000; ++i) logs.append(kF, "\n", milliseconds(i));
  const LogChunk chunk = logs.read(kF, 0, 1 << 20);
  EXPECT_EQ(chunk.next_offset, 100'000u);
  // The newest lines are kept: as many as the limit has room for.
  EXPECT_GE(chunk.text.size() * (1 + sizeof(LogMark)), kLimit - sizeof(LogMark));
  EXPECT_LE(chunk.text.size() + chunk.marks.size() * sizeof(LogMark), 2 * kLimit + 32);
  ASSERT_FALSE(chunk.marks.empty());
  for (const LogMark& mark : chunk.marks) EXPECT_EQ(mark.at, milliseconds(mark.offset));
  EXPECT_EQ(chunk.marks.front().offset, chunk.first_offset());
}

TEST(LogStore, NoAppendTakesMoreThanTheSurplus) {
  constexpr size_t kLimit = 1'000;
  LogStore logs{Bytes(kLimit)};
  for (int i = 0; i < 2'000; ++i) {
    logs.append(kF, i % 7 == 0 ? std::string(90, 'x') + "\n" : "\n", milliseconds(i));
    const LogChunk chunk = logs.read(kF, 0, 1 << 20);
    const size_t size = chunk.text.size() + (chunk.marks.size() - 1) * sizeof(LogMark);
    EXPECT_LE(size, 2 * kLimit);
    // A mark more would have gone beyond.
    EXPECT_TRUE(chunk.first_offset() == 0 || size + sizeof(LogMark) >= kLimit) << size;
  }
}

TEST(LogStore, TheObserverIsToldOfTimes) {
  LogStore logs;
  std::vector<std::optional<LogMark>> marks;
  logs.observe({.appended = [&](FunctionId, uint64_t, std::string_view,
                                const auto& mark) { marks.push_back(mark); },
                .removed = {}});
  logs.append(kF, "a", seconds(1));
  logs.append(kF, "b\n", seconds(2));
  logs.append(kF, "c\n", seconds(3));
  EXPECT_EQ(marks, (std::vector<std::optional<LogMark>>{LogMark{0, seconds(1)}, std::nullopt,
                                                        LogMark{3, seconds(3)}}));
}

TEST(LogTail, HoldsTheLastFourKilobytes) {
  LogTail tail;
  for (int i = 0; i < 10'000; ++i) tail.append("0123456789");
  tail.append("end");
  EXPECT_EQ(tail.text().size(), limits::kLogTail.count);
  EXPECT_EQ(tail.text().substr(tail.text().size() - 5), "89end");
  tail.append(std::string(100'000, 'x'));
  EXPECT_EQ(tail.text(), std::string(limits::kLogTail.count, 'x'));
}

TEST(LogStore, AChunkEndsWhereTextIsMissingAndTheNextOneBeginsBehindThat) {
  LogStore logs(Bytes(1000));
  logs.restore(kF,
               {{.first_offset = 10, .text = "one\n", .marks = {{10, seconds(1)}}},
                {.first_offset = 50, .text = "two\n", .marks = {{50, seconds(2)}}}},
               100);
  logs.append(kF, "three\n", seconds(3));
  LogChunk chunk = logs.read(kF, 0, 1000);
  EXPECT_EQ(chunk.text, "one\n");
  EXPECT_EQ(chunk.first_offset(), 10u);
  EXPECT_EQ(chunk.marks, (std::vector<LogMark>{{10, seconds(1)}}));
  EXPECT_TRUE(chunk.has_more());
  chunk = logs.read(kF, chunk.next_offset, 1000);
  EXPECT_EQ(chunk.text, "two\n");
  EXPECT_EQ(chunk.first_offset(), 50u);
  EXPECT_TRUE(chunk.is_after_step) << "what was kept is all there";
  chunk = logs.read(kF, 70, 1000);
  EXPECT_FALSE(chunk.is_after_step) << "what stood at 70 is gone";
  EXPECT_EQ(chunk.text, "three\n");
  EXPECT_EQ(chunk.marks, (std::vector<LogMark>{{100, seconds(3)}}));
  EXPECT_FALSE(chunk.has_more());
  EXPECT_EQ(logs.read(kF, 106, 1000).text, "");
  EXPECT_EQ(logs.read(kF, 107, 1000).text, "one\n") << "behind the end: of another log";
}

TEST(LogStore, TheOldestPiecesGoFirst) {
  LogStore logs(Bytes(10));
  logs.restore(kF, {{.first_offset = 0, .text = "12345678"}, {.first_offset = 20, .text = "abcd"}},
               100);
  logs.append(kF, "123456789", seconds(1));  // 21 bytes: half of them stay
  const LogChunk chunk = logs.read(kF, 0, 1000);
  EXPECT_EQ(chunk.first_offset(), 23u);
  EXPECT_EQ(chunk.text, "d");
  EXPECT_EQ(logs.read(kF, 24, 1000).text, "123456789");
}

}  // namespace
}  // namespace lambent::worker
