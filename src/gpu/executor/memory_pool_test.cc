#include "gpu/executor/memory_pool.h"

#include <random>
#include <thread>
#include <vector>

#include "gpu/executor/testing/testing.h"

namespace lambent::executor {
namespace {

class MemoryPoolTest : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    if (IsSkipped()) return;
    auto pool = MemoryPool::create(*driver_, 0);
    ASSERT_TRUE(pool.ok()) << to_string(pool.error());
    pool_ = std::move(*pool);
    pool_->set_limit(Bytes::mib(64));
  }
  void TearDown() override {
    pool_.reset();
    EXPECT_EQ(free_memory(), before_);
  }
  size_t free_memory() const {
    size_t free = 0, total = 0;
    EXPECT_EQ((*driver_)->mem_get_info(&free, &total), CUDA_SUCCESS);
    return free;
  }
  CUdeviceptr take(Bytes size, uint64_t user = 1) {
    auto block = pool_->take(size, user);
    EXPECT_TRUE(block.ok()) << to_string(block.error());
    return block.ok() ? block->address : 0;
  }

  void give(const MemoryPool::Leaving& leaving) {
    pool_->unmap(leaving);
    pool_->forget(leaving);
  }
  void trim(Bytes most, uint64_t looks) { give(pool_->begin_unmapping_idle(most, looks)); }
  void give_to_device(CUdeviceptr address) {
    MemoryPool::Leaving leaving;
    pool_->give_to_device(address, &leaving);
    give(leaving);
  }

  std::unique_ptr<MemoryPool> pool_;
  size_t before_ = 0;
};

TEST_F(MemoryPoolTest, WhatWasGivenBackIsTakenAgainWithoutTheDriver) {
  before_ = free_memory();
  const CUdeviceptr large = take(Bytes::mib(10)), small = take(Bytes(100));
  const uint64_t calls = pool_->driver_calls();
  for (int i = 0; i < 100; ++i) {
    pool_->give_back(large);
    pool_->give_back(small);
    EXPECT_EQ(take(Bytes::mib(10)), large);
    EXPECT_EQ(take(Bytes(100)), small);
  }
  EXPECT_EQ(pool_->driver_calls(), calls);
}

TEST_F(MemoryPoolTest, BlocksHoldWhatIsWrittenAndDoNotOverlap) {
  before_ = free_memory();
  std::mt19937 random(7);
  struct Taken {
    CUdeviceptr address;
    size_t bytes;
    unsigned char value;
  };
  std::vector<Taken> taken;
  for (int i = 0; i < 300; ++i) {
    if (!taken.empty() && random() % 3 == 0) {
      const Taken gone = taken[random() % taken.size()];
      unsigned char last = 0, first = 0;
      ASSERT_EQ((*driver_)->memcpy_d_to_h(&first, gone.address, 1), CUDA_SUCCESS);
      ASSERT_EQ((*driver_)->memcpy_d_to_h(&last, gone.address + gone.bytes - 1, 1), CUDA_SUCCESS);
      ASSERT_EQ(first, gone.value);
      ASSERT_EQ(last, gone.value);
      pool_->give_back(gone.address);
      std::erase_if(taken, [&](const Taken& each) { return each.address == gone.address; });
      continue;
    }
    const size_t bytes = random() % 4 == 0 ? 1 + random() % (4 << 20) : 1 + random() % 20'000;
    auto block = pool_->take(Bytes(bytes), random() % 3);
    if (!block.ok()) continue;
    taken.push_back({block->address, bytes, static_cast<unsigned char>(i)});
    ASSERT_EQ((*driver_)->memset_d8(block->address, static_cast<unsigned char>(i), bytes),
              CUDA_SUCCESS);
  }
  EXPECT_GT(taken.size(), 20u);
  for (const Taken& each : taken) pool_->give_back(each.address);
  EXPECT_EQ(pool_->used(), Bytes(0));
}

TEST_F(MemoryPoolTest, NoMoreThanTheLimitIsHandedOutOrKept) {
  before_ = free_memory();
  const CUdeviceptr first = take(Bytes::mib(40));
  const auto refused = pool_->take(Bytes::mib(30), 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(refused.error().message.find("64 MiB allowed"), std::string::npos);
  pool_->give_back(first);
  EXPECT_EQ(pool_->mapped(), Bytes::mib(40));
  // Another size: what lies free makes room within the limit.
  const CUdeviceptr second = take(Bytes::mib(30));
  EXPECT_EQ(pool_->mapped(), Bytes::mib(30));
  pool_->give_back(second);
  pool_->set_limit(Bytes::mib(8));
  EXPECT_EQ(pool_->mapped(), Bytes(0));
}

TEST_F(MemoryPoolTest, TheDevicesOwnEndIsAnErrorAndLeavesThePoolAsItWas) {
  before_ = free_memory();
  pool_->set_limit(Bytes::gib(10));  // the device has one
  const CUdeviceptr kept = take(Bytes::mib(20));
  const CUdeviceptr given_back = take(Bytes::mib(700));
  pool_->give_back(given_back);
  // Fits only because what lies free is released.
  const CUdeviceptr other = take(Bytes::mib(600));
  EXPECT_NE(other, 0u);
  const auto refused = pool_->take(Bytes::mib(600), 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(pool_->used(), Bytes::mib(620));
  pool_->give_back(kept);
  pool_->give_back(other);
}

TEST_F(MemoryPoolTest, ABlockSaysWhetherAnotherHadItBefore) {
  before_ = free_memory();
  const auto first = pool_->take(Bytes::mib(4), 1);
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(first->own);
  pool_->give_back(first->address);
  const auto again = pool_->take(Bytes::mib(4), 1);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->own);
  pool_->give_back(again->address);
  const auto others = pool_->take(Bytes::mib(4), 2);
  ASSERT_TRUE(others.ok());
  EXPECT_EQ(others->address, first->address);
  EXPECT_FALSE(others->own);
  pool_->give_back(others->address);
}

TEST_F(MemoryPoolTest, FreeMemoryGoesToTheDeviceAfterAsManyLooks) {
  before_ = free_memory();
  const CUdeviceptr kept = take(Bytes::mib(4)), small = take(Bytes(100));
  pool_->give_back(take(Bytes::mib(8)));
  trim(Bytes::gib(1), 2);
  pool_->give_back(take(Bytes::mib(6)));
  const uint64_t calls = pool_->driver_calls();
  trim(Bytes::gib(1), 2);
  EXPECT_EQ(pool_->driver_calls(), calls) << "both were in use a moment ago";
  trim(Bytes::gib(1), 2);
  EXPECT_EQ(pool_->mapped(), Bytes::mib(4 + 2 + 6));
  // One that was in use meanwhile begins again.
  pool_->give_back(take(Bytes::mib(6)));
  trim(Bytes::gib(1), 2);
  pool_->give_back(small);
  EXPECT_EQ(pool_->mapped(), Bytes::mib(4 + 2 + 6));
  EXPECT_TRUE(pool_->has_free());
  for (int i = 0; i < 3; ++i) trim(Bytes::gib(1), 2);
  EXPECT_EQ(pool_->mapped(), Bytes::mib(4));
  EXPECT_FALSE(pool_->has_free());
  pool_->give_back(kept);
}

TEST_F(MemoryPoolTest, NoMoreIsTrimmedThanIsAskedForTheLargestFirst) {
  before_ = free_memory();
  const CUdeviceptr blocks[] = {take(Bytes::mib(2)), take(Bytes::mib(10)), take(Bytes::mib(4)),
                                take(Bytes(100))};
  for (const CUdeviceptr block : blocks) pool_->give_back(block);
  trim(Bytes(), 0);
  EXPECT_EQ(pool_->mapped(), Bytes::mib(18));
  trim(Bytes(1), 0);
  EXPECT_EQ(pool_->mapped(), Bytes::mib(8));
  trim(Bytes::mib(7), 0);
  EXPECT_EQ(pool_->mapped(), Bytes());
}

TEST_F(MemoryPoolTest, ABlockCanGoToTheDeviceAtOnceIfNothingElseLiesThere) {
  before_ = free_memory();
  const CUdeviceptr large = take(Bytes::mib(4)), small = take(Bytes(100)), other = take(Bytes(100));
  give_to_device(large);
  EXPECT_EQ(pool_->mapped(), Bytes::mib(2));
  give_to_device(small);
  EXPECT_EQ(pool_->mapped(), Bytes::mib(2));
  give_to_device(other);
  EXPECT_EQ(pool_->mapped(), Bytes());
  EXPECT_EQ(pool_->used(), Bytes());
  // Below the limit, its unit goes by itself.
  const CUdeviceptr last = take(Bytes(100));
  const CUdeviceptr kept = take(Bytes::mib(10));
  pool_->set_limit(Bytes::mib(10));
  give_to_device(last);
  EXPECT_EQ(pool_->mapped(), Bytes::mib(10));
  pool_->give_back(kept);
}

// Of a full device: what is on its way to it is waited for before the request is refused.
TEST_F(MemoryPoolTest, WhoeverFindsTooLittleHasWhatIsLeaving) {
  before_ = free_memory();
  const Bytes rest = Bytes(before_ / pool_->rounded(Bytes::mib(2)).count * Bytes::mib(2).count);
  pool_->set_limit(rest);
  const CUdeviceptr all = take(rest);
  pool_->give_back(all);
  const auto leaving = pool_->begin_unmapping(rest);
  ASSERT_EQ(leaving.size(), 1u);
  std::thread other([&] {
    EXPECT_TRUE(context_->enter().ok());
    pool_->unmap(leaving);
  });
  const CUdeviceptr again = take(rest);
  other.join();
  pool_->forget(leaving);
  pool_->give_back(again);
}

}  // namespace
}  // namespace lambent::executor
