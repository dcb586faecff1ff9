#include "gpu/shim/memory_view.h"

#include <gtest/gtest.h>

namespace lambent::shim {
namespace {

TEST(MemoryView, WithoutALimitIsTheDevices) {
  const MemoryView view = narrowed({30, 100}, 0, 70);
  EXPECT_EQ(view.free_bytes, 30u);
  EXPECT_EQ(view.total_bytes, 100u);
}

TEST(MemoryView, TellsTheLimitAsTotalAndWhatItLeavesAsFree) {
  const MemoryView view = narrowed({90, 100}, 40, 10);
  EXPECT_EQ(view.total_bytes, 40u);
  EXPECT_EQ(view.free_bytes, 30u);
}

TEST(MemoryView, NeverHasMoreFreeThanTheDevice) {
  EXPECT_EQ(narrowed({5, 100}, 40, 10).free_bytes, 5u);
}

TEST(MemoryView, HasNothingFreeAtTheLimitAndBeyond) {
  EXPECT_EQ(narrowed({90, 100}, 40, 40).free_bytes, 0u);
  EXPECT_EQ(narrowed({90, 100}, 40, 50).free_bytes, 0u);
}

TEST(MemoryView, IsTheDevicesUnderALimitBeyondIt) {
  const MemoryView view = narrowed({90, 100}, 1000, 60);
  EXPECT_EQ(view.total_bytes, 100u);
  EXPECT_EQ(view.free_bytes, 90u) << "managed memory is counted wherever it lies";
}

}  // namespace
}  // namespace lambent::shim
