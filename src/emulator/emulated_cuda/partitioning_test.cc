#include "emulator/emulated_cuda/partitioning.h"

#include <gtest/gtest.h>

namespace lambent::emulated_cuda {
namespace {

TEST(MpsClient, TakesItsTermsFromTheEnvironment) {
  emulated_node::Settings settings;
  EXPECT_EQ(mps_limit(mps_client(settings), 132), 0);
  settings.mps_percentage = "50";
  EXPECT_EQ(mps_limit(mps_client(settings), 132), 66);
  EXPECT_EQ(mps_limit(mps_client(settings), 7), 4);
  settings.mps_percentage = "0.5";
  EXPECT_EQ(mps_limit(mps_client(settings), 132), 2);
  for (const char* wrong : {"-3", "0", "101", "half", ""}) {
    settings.mps_percentage = wrong;
    EXPECT_EQ(mps_limit(mps_client(settings), 132), 0) << wrong;
  }
  settings.mps_percentage = "50";
  settings.mps_priority = "1";
  EXPECT_EQ(mps_client(settings).priority, 1);
  EXPECT_EQ(mps_limit(MpsClient{}, 132), 0);
}

TEST(MpsClient, MemoryLimitsAreForDevicesByTheirOrdinal) {
  auto limits = parse_memory_limits("0=1G,1=512MB, 2=100,x=3G,3,4=9999999999999G");
  EXPECT_EQ(limits.size(), 3u);
  EXPECT_EQ(limits[0], uint64_t{1} << 30);
  EXPECT_EQ(limits[1], uint64_t{512} << 20);
  EXPECT_EQ(limits[2], 100u);
}

}  // namespace
}  // namespace lambent::emulated_cuda
