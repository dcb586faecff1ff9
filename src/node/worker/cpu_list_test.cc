#include "node/worker/cpu_list.h"

#include <gtest/gtest.h>

namespace lambent::worker {
namespace {

TEST(CpuList, RangesAndNumbersBecomeProcessorsEachOnce) {
  EXPECT_EQ(*parse_cpu_list("0-2,8,1,10-11"), (std::vector<uint32_t>{0, 1, 2, 8, 10, 11}));
  EXPECT_EQ(*parse_cpu_list("7"), std::vector<uint32_t>{7});
  EXPECT_TRUE(parse_cpu_list("")->empty());
}

TEST(CpuList, WhatIsNoListIsRefused) {
  for (const char* text : {"a", "1-", "-1", "3-1", "1,", ",1", "1,,2", "1 2", "8192", "0-99999999",
                           "1-2-3", "99999999999999999999"}) {
    EXPECT_FALSE(parse_cpu_list(text).ok()) << text;
  }
}

}  // namespace
}  // namespace lambent::worker
