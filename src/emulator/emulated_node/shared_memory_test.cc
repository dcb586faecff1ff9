#include "emulator/emulated_node/shared_memory.h"

#include <gtest/gtest.h>

#include <memory>

namespace lambent::emulated_node {
namespace {

class Shared : public testing::Test {
 protected:
  std::unique_ptr<SharedMemory> memory{new SharedMemory{}};
};

TEST_F(Shared, BytesAreCountedOnceAndUntilTheLastHolderGoes) {
  SharedHandle handle = share(*memory, 1, 4096, 3);
  ASSERT_TRUE(hold(*memory, handle, 200));
  EXPECT_EQ(shared_bytes(*memory, 1), 4096u);
  EXPECT_EQ(shared_bytes(*memory, 0), 0u);
  EXPECT_EQ(shared_bytes_of(*memory, 1, 200), 4096u);
  EXPECT_EQ(shared_bytes_of(*memory, 1, 4), 0u);
  drop(*memory, handle, 3);
  EXPECT_EQ(shared_bytes(*memory, 1), 4096u);
  drop(*memory, handle, 200);
  EXPECT_EQ(shared_bytes(*memory, 1), 0u);
}

TEST_F(Shared, AHandleOfWhatHasGoneHoldsNothing) {
  SharedHandle old = share(*memory, 0, 10, 0);
  drop(*memory, old, 0);
  SharedHandle fresh = share(*memory, 0, 20, 1);
  EXPECT_EQ(fresh.index, old.index);
  EXPECT_FALSE(hold(*memory, old, 2));
  drop(*memory, old, 1);
  EXPECT_EQ(shared_bytes(*memory, 0), 20u);
  EXPECT_FALSE(hold(*memory, {kMaxShared + 5, 1}, 2));
  EXPECT_FALSE(hold(*memory, {0, 0}, 2));
}

TEST_F(Shared, ADeadProcessLetsGoOfEverything) {
  SharedHandle both = share(*memory, 0, 10, 0);
  ASSERT_TRUE(hold(*memory, both, 1));
  share(*memory, 0, 5, 1);
  drop_holder(*memory, 1);
  EXPECT_EQ(shared_bytes(*memory, 0), 10u);
  drop_holder(*memory, 0);
  EXPECT_EQ(shared_bytes(*memory, 0), 0u);
  EXPECT_EQ(memory->bound, 0u);
}

TEST_F(Shared, AFullTableSaysSo) {
  for (int i = 0; i < kMaxShared; i++) ASSERT_NE(share(*memory, 0, 1, 0).id, 0u);
  EXPECT_EQ(share(*memory, 0, 1, 0).id, 0u);
}

}  // namespace
}  // namespace lambent::emulated_node
