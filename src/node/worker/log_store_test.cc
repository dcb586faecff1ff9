#include "node/worker/log_store.h"

#include <gtest/gtest.h>

namespace lambent::worker {
namespace {

const FunctionId kF{1};

TEST(LogStore, ReadsOnFromTheOffsetItGave) {
  LogStore logs;
  logs.append(kF, "one\n");
  const auto first = logs.read(kF, 0, 100);
  EXPECT_EQ(first.text, "one\n");
  logs.append(kF, "two\n");
  const auto second = logs.read(kF, first.next_offset, 100);
  EXPECT_EQ(second.text, "two\n");
  EXPECT_EQ(logs.read(kF, second.next_offset, 100).text, "");
}

TEST(LogStore, KeepsTheNewestBytesAndItsOffsetsStayTrue) {
  LogStore logs(Bytes(10));
  for (int i = 0; i < 100; ++i) logs.append(kF, std::to_string(i % 10));
  const auto chunk = logs.read(kF, 0, 1000);
  EXPECT_GE(chunk.text.size(), 10u);
  EXPECT_LE(chunk.text.size(), 20u);
  EXPECT_EQ(chunk.text.back(), '9');
  EXPECT_EQ(chunk.next_offset, 100u);
}

TEST(LogStore, AnOffsetFromTheFutureOrAnUnknownFunctionGivesNothing) {
  LogStore logs;
  logs.append(kF, "abc");
  EXPECT_EQ(logs.read(kF, 1000, 10).text, "");
  EXPECT_EQ(logs.read(FunctionId(9), 0, 10).text, "");
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

}  // namespace
}  // namespace lambent::worker
