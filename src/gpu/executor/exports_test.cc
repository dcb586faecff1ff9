#include "gpu/executor/exports.h"

#include "gpu/executor/testing/testing.h"

namespace lambent::executor {
namespace {

class ExportsTest : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    if (IsSkipped()) return;
    auto pool = MemoryPool::create(*driver_, 0);
    ASSERT_TRUE(pool.ok()) << to_string(pool.error());
    pool_ = std::move(*pool);
    store_ = std::make_unique<DeviceStore>(*pool_);
    store_->set_limit(Bytes::mib(8));
    exports_ = std::make_unique<Exports>(*store_, *pool_);
  }
  void TearDown() override {
    exports_.reset();
    store_.reset();
  }
  ObjectId place(uint32_t number, Bytes size, bool is_filled = true) {
    const ObjectId object{{1, 2}, number};
    EXPECT_TRUE(store_->place(DeviceName::of(object), size, 1).ok());
    store_->find(DeviceName::of(object))->filled = is_filled;
    store_->unpin(DeviceName::of(object));
    return object;
  }
  bool is_there(ObjectId object) { return store_->find(DeviceName::of(object)) != nullptr; }

  std::unique_ptr<MemoryPool> pool_;
  std::unique_ptr<DeviceStore> store_;
  std::unique_ptr<Exports> exports_;
};

TEST_F(ExportsTest, AnExportedObjectStaysUntilItsLastExportHasEnded) {
  const ObjectId object = place(1, Bytes::mib(2));
  EXPECT_TRUE(exports_->empty());
  for (int i = 0; i < 2; ++i) {
    const auto memory = exports_->begin(object);
    ASSERT_TRUE(memory.ok()) << to_string(memory.error());
    EXPECT_EQ(memory->size, Bytes::mib(2));
    EXPECT_TRUE(memory->memory.valid());
  }
  EXPECT_TRUE(exports_->end(object));
  EXPECT_FALSE(exports_->empty());
  store_->drop(DeviceName::of(object));
  EXPECT_TRUE(is_there(object));
  EXPECT_TRUE(exports_->end(object));
  EXPECT_TRUE(exports_->empty());
  store_->drop(DeviceName::of(object));
  EXPECT_FALSE(is_there(object));
}

TEST_F(ExportsTest, OnlyWholeObjectsInMemoryOfTheirOwnAreExported) {
  const ObjectId small = place(1, Bytes::kib(4));
  const ObjectId coming = place(2, Bytes::mib(2), false);
  for (const ObjectId object : {small, coming, ObjectId{{1, 2}, 3}}) {
    const auto memory = exports_->begin(object);
    ASSERT_FALSE(memory.ok());
    EXPECT_EQ(memory.error().code, ErrorCode::kNotFound);
    EXPECT_FALSE(exports_->end(object));
  }
  EXPECT_TRUE(exports_->empty());
}

}  // namespace
}  // namespace lambent::executor
