#include "emulator/emulated_node/byte_locks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <thread>

namespace lambent::emulated_node {
namespace {

class ByteLocks : public testing::Test {
 protected:
  ByteLocks() : mine_(memfd_create("locks", MFD_CLOEXEC)) {
    other_ = open(("/proc/self/fd/" + std::to_string(mine_)).c_str(), O_RDWR | O_CLOEXEC);
  }
  ~ByteLocks() override {
    close(mine_);
    close(other_);
  }
  int mine_;
  int other_;  // as another process has it
};

TEST_F(ByteLocks, AByteHasOneHolderAndTheOthersAreFree) {
  ASSERT_TRUE(try_lock(other_, kLockByte));
  EXPECT_FALSE(try_lock(mine_, kLockByte));
  EXPECT_TRUE(try_lock(mine_, kCreationByte));
  unlock(other_, kLockByte);
  EXPECT_TRUE(try_lock(mine_, kLockByte));
}

TEST_F(ByteLocks, AWaitForALockThatNeverComesFreeHasAnEnd) {
  ASSERT_TRUE(try_lock(other_, kLockByte));
  EXPECT_FALSE(lock_within(mine_, kLockByte, 5'000'000));
  EXPECT_FALSE(lock_within(-1, kLockByte, 60'000'000'000)) << "what is no file is not waited for";
}

TEST_F(ByteLocks, AWaiterGetsTheLockThatComesFree) {
  ASSERT_TRUE(try_lock(other_, kLockByte));
  std::thread waiter([this] { EXPECT_TRUE(lock_within(mine_, kLockByte, 60'000'000'000)); });
  unlock(other_, kLockByte);
  waiter.join();
  EXPECT_FALSE(try_lock(other_, kLockByte));
}

TEST_F(ByteLocks, OnlyTheLocksOfOthersCountAsTheirs) {
  ASSERT_TRUE(try_lock(mine_, kFirstRowByte + 3));
  EXPECT_FALSE(is_locked_by_others(mine_, kFirstRowByte, 512));
  ASSERT_TRUE(try_lock(other_, kFirstRowByte + 511));
  EXPECT_TRUE(is_locked_by_others(mine_, kFirstRowByte, 512));
  EXPECT_FALSE(is_locked_by_others(mine_, kFirstRowByte, 511));
}

}  // namespace
}  // namespace lambent::emulated_node
