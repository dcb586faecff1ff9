#include "gpu/shim/pool_table.h"

#include <gtest/gtest.h>

namespace lambent::shim {
namespace {

Handle pool(uint64_t number) { return reinterpret_cast<Handle>(number); }

TEST(PoolTable, APoolIsKnownWithItsDeviceUntilItIsRemoved) {
  PoolTable pools;
  Device device = -1;
  EXPECT_FALSE(pools.find(pool(1), &device));
  pools.add(pool(1), 3);
  pools.add(pool(2), 5);
  EXPECT_TRUE(pools.find(pool(1), &device));
  EXPECT_EQ(device, 3);
  pools.remove(pool(1));
  EXPECT_FALSE(pools.find(pool(1), &device));
  EXPECT_TRUE(pools.find(pool(2), &device));
  EXPECT_EQ(device, 5);
}

TEST(PoolTable, OfMoreThanItCanRememberTheLastStayUnknownUntilOneIsRemoved) {
  PoolTable pools;
  for (int i = 1; i <= PoolTable::kMost + 1; ++i) pools.add(pool(i), i);
  Device device = -1;
  EXPECT_TRUE(pools.find(pool(PoolTable::kMost), &device));
  EXPECT_FALSE(pools.find(pool(PoolTable::kMost + 1), &device));
  pools.remove(pool(7));
  pools.add(pool(1000), 9);
  EXPECT_TRUE(pools.find(pool(1000), &device));
  EXPECT_EQ(device, 9);
}

}  // namespace
}  // namespace lambent::shim
