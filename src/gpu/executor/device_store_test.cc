#include "gpu/executor/device_store.h"

#include "gpu/executor/testing/testing.h"

namespace lambent::executor {
namespace {

DeviceName object(uint32_t number) { return DeviceName::of(ObjectId{{1, 2}, number}); }

class DeviceStoreTest : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    if (IsSkipped()) return;
    auto pool = MemoryPool::create(*driver_, 0);
    ASSERT_TRUE(pool.ok()) << to_string(pool.error());
    pool_ = std::move(*pool);
    store_ = std::make_unique<DeviceStore>(*pool_);
    store_->set_limit(Bytes::mib(20));
  }
  void TearDown() override {
    store_.reset();
    if (pool_ != nullptr) {
      EXPECT_EQ(pool_->used(), Bytes(0));
    }
  }
  void place(const DeviceName& name, Bytes size) {
    ASSERT_TRUE(store_->place(name, size, 1).ok());
    store_->unpin(name);
  }

  void trim(Bytes most, uint64_t looks, const std::function<bool(SandboxId)>& is_idle) {
    const auto leaving = store_->trim(most, looks, is_idle);
    pool_->unmap(leaving);
    pool_->forget(leaving);
  }

  std::unique_ptr<MemoryPool> pool_;
  std::unique_ptr<DeviceStore> store_;
};

TEST_F(DeviceStoreTest, TheLeastRecentlyUsedGoesForWhatComes) {
  place(object(1), Bytes::mib(8));
  place(object(2), Bytes::mib(8));
  store_->pin(object(1));
  store_->unpin(object(1));
  place(object(3), Bytes::mib(8));
  EXPECT_NE(store_->find(object(1)), nullptr);
  EXPECT_EQ(store_->find(object(2)), nullptr);
}

TEST_F(DeviceStoreTest, WhatQueuedRequestsWantGoesAfterWhatIsUsedMoreOften) {
  store_->want(object(1), true);  // before it is there
  place(object(1), Bytes::mib(8));
  place(object(2), Bytes::mib(8));
  store_->pin(object(2));
  store_->unpin(object(2));
  place(object(3), Bytes::mib(8));
  EXPECT_NE(store_->find(object(1)), nullptr);
  EXPECT_EQ(store_->find(object(2)), nullptr);
  // Where nothing else can go it does, and counts again when it comes back.
  place(object(4), Bytes::mib(20));
  EXPECT_EQ(store_->find(object(1)), nullptr);
  const DeviceName output = DeviceName::of(SandboxId(3), 0);
  place(output, Bytes::mib(8));
  store_->rename(output, object(1));
  place(object(5), Bytes::mib(8));
  place(object(6), Bytes::mib(8));
  EXPECT_NE(store_->find(object(1)), nullptr);
  EXPECT_EQ(store_->find(object(5)), nullptr);
  store_->want(object(1), false);
  place(object(7), Bytes::mib(8));
  EXPECT_EQ(store_->find(object(1)), nullptr);
}

TEST_F(DeviceStoreTest, WhatIsWantedLeavesWithItsObject) {
  store_->want(object(1), true);
  place(object(1), Bytes::mib(8));
  store_->leave(object(1));
  EXPECT_EQ(store_->find(object(1)), nullptr);
  // One of this name is another.
  place(object(1), Bytes::mib(8));
  place(object(2), Bytes::mib(8));
  place(object(3), Bytes::mib(8));
  EXPECT_EQ(store_->find(object(1)), nullptr);
}

TEST_F(DeviceStoreTest, WhatARunningRequestHasStaysAndTheOthersFitOrFail) {
  ASSERT_TRUE(store_->place(object(1), Bytes::mib(12), 1).ok());
  const auto refused = store_->place(object(2), Bytes::mib(12), 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(store_->find(object(2)), nullptr);
  store_->unpin(object(1));
  EXPECT_TRUE(store_->place(object(2), Bytes::mib(12), 1).ok());
  EXPECT_EQ(store_->find(object(1)), nullptr);
  store_->unpin(object(2));
}

TEST_F(DeviceStoreTest, ALowerLimitLetsGoAtOnceOrWhenTheUseEnds) {
  place(object(1), Bytes::mib(8));
  ASSERT_TRUE(store_->place(object(2), Bytes::mib(8), 1).ok());
  store_->set_limit(Bytes::mib(4));
  EXPECT_EQ(store_->find(object(1)), nullptr);
  EXPECT_NE(store_->find(object(2)), nullptr);
  store_->unpin(object(2));
  EXPECT_EQ(store_->find(object(2)), nullptr);
  EXPECT_EQ(pool_->mapped(), Bytes(0));
}

TEST_F(DeviceStoreTest, AnOutputGoesByItsObjectsName) {
  const DeviceName buffer = DeviceName::of(SandboxId(3), 0);
  ASSERT_TRUE(store_->place(buffer, Bytes::mib(2), 1).ok());
  const CUdeviceptr address = store_->find(buffer)->address;
  store_->rename(buffer, object(1));
  EXPECT_EQ(store_->find(buffer), nullptr);
  EXPECT_EQ(store_->find(object(1))->address, address);
  store_->unpin(object(1));
  store_->drop(object(1));
  EXPECT_EQ(store_->find(object(1)), nullptr);
}

TEST_F(DeviceStoreTest, WhatIsNeededOutlivesWhatIsNot) {
  place(object(1), Bytes::mib(8));
  place(object(2), Bytes::mib(8));
  const uint64_t ticket = store_->need(object(1));
  place(object(3), Bytes::mib(8));
  EXPECT_NE(store_->find(object(1)), nullptr);
  store_->unneed(ticket);
  store_->unneed(ticket + 1000);  // gone meanwhile
  place(object(4), Bytes::mib(8));
  EXPECT_EQ(store_->find(object(1)), nullptr);
}

TEST_F(DeviceStoreTest, OnlyBuffersOfIdleInstancesAreTrimmedInTheirOrder) {
  const auto instance = [](uint64_t number) { return DeviceName::of(SandboxId(number), 0); };
  const auto is_idle = [](SandboxId id) { return id != SandboxId(2); };
  place(object(1), Bytes::mib(2));
  place(DeviceName::constant(1, 1), Bytes::mib(2));
  for (const uint64_t number : {1, 2, 3, 4}) place(instance(number), Bytes::mib(2));
  ASSERT_TRUE(store_->place(instance(5), Bytes::mib(2), 1).ok());
  const CUdeviceptr busy = store_->find(instance(2))->address;
  store_->pin(instance(1));  // the last one to go now
  store_->unpin(instance(1));

  trim(Bytes::mib(3), 0, is_idle);
  EXPECT_EQ(pool_->mapped(), Bytes::mib(10));
  EXPECT_EQ(store_->find(instance(3)), nullptr);
  EXPECT_EQ(store_->find(instance(4)), nullptr);
  EXPECT_NE(store_->find(instance(1)), nullptr);
  trim(Bytes::mib(100), 0, is_idle);
  EXPECT_EQ(pool_->mapped(), Bytes::mib(8));
  EXPECT_EQ(store_->find(instance(1)), nullptr);
  ASSERT_NE(store_->find(instance(2)), nullptr);
  EXPECT_EQ(store_->find(instance(2))->address, busy);
  EXPECT_NE(store_->find(instance(5)), nullptr) << "it is pinned";
  EXPECT_NE(store_->find(object(1)), nullptr);
  EXPECT_NE(store_->find(DeviceName::constant(1, 1)), nullptr);
  store_->unpin(instance(5));
}

TEST_F(DeviceStoreTest, WhatLiesFreeIsTrimmedBeforeAnyBuffer) {
  const DeviceName buffer = DeviceName::of(SandboxId(1), 0);
  place(buffer, Bytes::mib(4));
  place(object(1), Bytes::mib(8));
  store_->drop(object(1));
  trim(Bytes::mib(4), 0, [](SandboxId) { return true; });
  EXPECT_EQ(pool_->mapped(), Bytes::mib(4));
  EXPECT_NE(store_->find(buffer), nullptr);
}

TEST_F(DeviceStoreTest, WhatIsToLeaveGoesWithItsLastPinAndObjectsOfTheirOwnMemoryAreToldOf) {
  std::vector<ObjectId> gone;
  store_ = std::make_unique<DeviceStore>(*pool_, [&](ObjectId id) { gone.push_back(id); });
  store_->set_limit(Bytes::mib(20));
  place(object(1), Bytes::mib(8));
  place(object(2), Bytes::kib(8));
  place(DeviceName::of(SandboxId(1), 3), Bytes::mib(4));
  store_->pin(object(1));
  store_->leave(object(1));
  EXPECT_NE(store_->find(object(1)), nullptr);
  EXPECT_TRUE(gone.empty());
  store_->unpin(object(1));
  EXPECT_EQ(store_->find(object(1)), nullptr);
  store_->leave(object(2));
  EXPECT_EQ(store_->find(object(2)), nullptr);
  store_->leave(DeviceName::of(SandboxId(1), 3));
  store_->leave(object(9));
  EXPECT_EQ(gone, (std::vector<ObjectId>{object(1).object()}));
}

}  // namespace
}  // namespace lambent::executor
