#include "node/worker/log_times.h"

#include <gtest/gtest.h>

namespace lambent::worker {
namespace {

using Marks = std::vector<LogMark>;

TEST(LogTimesTest, WhatIsWrittenIsRead) {
  const std::string text = log_time_line(0, seconds(1)) + log_time_line(7, milliseconds(1'234));
  EXPECT_EQ(text, "@0 1000\n@7 1234\n");
  EXPECT_EQ(read_log_times(text, 8), (Marks{{0, seconds(1)}, {7, milliseconds(1'234)}}));
}

TEST(LogTimesTest, OnlyThoseWithinTheFileCount) {
  EXPECT_EQ(read_log_times("@0 1\n@7 2\n", 7), (Marks{{0, milliseconds(1)}}));
  EXPECT_EQ(read_log_times("@0 1\n", 0), Marks());
}

TEST(LogTimesTest, OfMarksThatDoNotRiseTheLastCount) {
  EXPECT_EQ(read_log_times("@0 1\n@5 2\n@9 3\n@5 4\n@8 5\n", 10),
            (Marks{{0, milliseconds(1)}, {5, milliseconds(4)}, {8, milliseconds(5)}}));
}

TEST(LogTimesTest, WhatIsCutOffSpoilsNoOtherLine) {
  EXPECT_EQ(read_log_times("@0 1\n@5 17@5 2\n@9 3", 10),
            (Marks{{0, milliseconds(1)}, {5, milliseconds(2)}}));
}

TEST(LogTimesTest, WhatIsNoMarkIsPassedOver) {
  for (const char* text : {"", "\n", "@\n", "@1\n", "@1 \n", "@ 1\n", "@1 -2\n", "@-1 2\n",
                           "@1 2 \n", "@1  2\n", "@1 2x\n", "1 2\n", "@1 9000000000001\n",
                           "@99999999999999999999 1\n", "@1 99999999999999999999\n"}) {
    EXPECT_EQ(read_log_times(text, 100), Marks()) << text;
  }
}

}  // namespace
}  // namespace lambent::worker
