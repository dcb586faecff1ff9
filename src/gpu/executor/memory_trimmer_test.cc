#include "gpu/executor/memory_trimmer.h"

#include <set>

#include "gpu/executor/testing/testing.h"

namespace lambent::executor {
namespace {

class MemoryTrimmerTest : public EmulatedDevice {
 protected:
  void start(MemoryTrimmer::Options options = {}) {
    if (IsSkipped()) return;
    auto pool = MemoryPool::create(*driver_, 0);
    ASSERT_TRUE(pool.ok()) << to_string(pool.error());
    pool_ = std::move(*pool);
    store_ = std::make_unique<DeviceStore>(*pool_);
    store_->set_limit(Bytes::mib(64));
    trimmer_ = std::make_unique<MemoryTrimmer>(
        loop_, *context_, *pool_, *store_, options,
        MemoryTrimmer::Hooks{.is_idle = [this](SandboxId id) { return !busy_.contains(id); },
                             .on_returned = [this] { ++returned_; },
                             .has_ended = [this] { return has_ended_; }});
  }
  void TearDown() override {
    trimmer_.reset();
    store_.reset();
  }
  void place(uint64_t instance, Bytes size) {
    const DeviceName name = DeviceName::of(SandboxId(instance), 0);
    ASSERT_TRUE(store_->place(name, size, instance + 1).ok());
    store_->unpin(name);
  }
  // Lets so many looks come, and what they return go.
  void pass(int looks) {
    for (int i = 0; i < looks; ++i) {
      clock_.advance(milliseconds(250));
      loop_.run_once(Duration(0));
      while (trimmer_->is_returning()) loop_.run_once(seconds(30));
    }
  }

  FakeClock clock_;
  loop::EventLoop loop_{clock_};
  std::unique_ptr<MemoryPool> pool_;
  std::unique_ptr<DeviceStore> store_;
  std::unique_ptr<MemoryTrimmer> trimmer_;
  std::set<SandboxId> busy_;
  int returned_ = 0;
  bool has_ended_ = false;
};

TEST_F(MemoryTrimmerTest, BuffersOfIdleInstancesGoToTheDeviceAndThoseOfBusyOnesStay) {
  ASSERT_NO_FATAL_FAILURE(start());
  busy_ = {SandboxId(1)};
  place(1, Bytes::mib(4));
  place(2, Bytes::mib(8));
  EXPECT_EQ(pool_->mapped(), Bytes::mib(12));
  trimmer_->watch();
  pass(8);
  EXPECT_EQ(pool_->mapped(), Bytes::mib(4));
  EXPECT_NE(store_->find(DeviceName::of(SandboxId(1), 0)), nullptr);
  EXPECT_EQ(store_->find(DeviceName::of(SandboxId(2), 0)), nullptr);
  EXPECT_GE(returned_, 1);
  busy_.clear();
  pass(8);
  EXPECT_EQ(pool_->mapped(), Bytes(0)) << "it looks again while there is something to return";
}

TEST_F(MemoryTrimmerTest, NothingIsReturnedUnderARuleThatKeepsMemory) {
  ASSERT_NO_FATAL_FAILURE(start({.rule = scheduling::PoolRule::kFineGrained}));
  place(1, Bytes::mib(4));
  trimmer_->watch();
  pass(8);
  EXPECT_EQ(pool_->mapped(), Bytes::mib(4));
}

TEST_F(MemoryTrimmerTest, NothingIsReturnedOnceTheExecutorHasEnded) {
  ASSERT_NO_FATAL_FAILURE(start());
  place(1, Bytes::mib(4));
  trimmer_->watch();
  has_ended_ = true;
  pass(8);
  EXPECT_EQ(pool_->mapped(), Bytes::mib(4));
  EXPECT_EQ(returned_, 0);
}

}  // namespace
}  // namespace lambent::executor
