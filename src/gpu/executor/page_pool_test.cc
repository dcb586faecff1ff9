#include "gpu/executor/page_pool.h"

#include <gmock/gmock.h>

#include <atomic>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "gpu/cuda/stream.h"
#include "gpu/executor/testing/testing.h"

namespace lambent::executor {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Pages = std::vector<uint32_t>;

class PagePoolTest : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    if (IsSkipped()) return;
    before_ = free_memory();
    auto pool = PagePool::create(*driver_, 0);
    ASSERT_TRUE(pool.ok()) << to_string(pool.error());
    pool_ = std::move(*pool);
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
  std::optional<cuda::DeviceBuffer> all_that_is_left() {
    const size_t left = free_memory();
    auto memory = cuda::DeviceBuffer::allocate(*driver_, Bytes(left - left % pool_->page().count));
    EXPECT_TRUE(memory.ok());
    if (!memory.ok()) return std::nullopt;
    return std::optional<cuda::DeviceBuffer>(std::move(*memory));
  }
  CUdeviceptr open(uint32_t pages) {
    const auto window = pool_->open(pages);
    EXPECT_TRUE(window.ok());
    return window.ok() ? *window : 0;
  }
  // The pages of the window that came with something else in them, which are clean then.
  Pages take(CUdeviceptr window, const Pages& pages) {
    auto runs = pool_->take(window, pages);
    while (!runs.ok() && runs.error().code == ErrorCode::kUnavailable) {  // another unmaps one
      std::this_thread::yield();
      runs = pool_->take(window, pages);
    }
    EXPECT_TRUE(runs.ok()) << to_string(runs.error());
    Pages foreign;
    if (!runs.ok()) return foreign;
    pool_->cleaned(window, *runs);
    for (const auto& run : *runs) {
      for (uint64_t at = 0; at < run.size.count; at += pool_->page().count) {
        foreign.push_back(static_cast<uint32_t>((run.address - window + at) / pool_->page().count));
      }
    }
    return foreign;
  }
  void write(CUdeviceptr window, uint32_t page, unsigned char value) {
    EXPECT_EQ((*driver_)->memset_d8_async(window + page * pool_->page().count, value,
                                          pool_->page().count, nullptr),
              CUDA_SUCCESS);
    EXPECT_EQ((*driver_)->ctx_synchronize(), CUDA_SUCCESS);
  }
  unsigned char value_at(CUdeviceptr window, uint32_t page) {
    unsigned char value = 0;
    const auto stream = cuda::Stream::create(*driver_);
    EXPECT_TRUE(stream->copy_to_host(&value, window + page * pool_->page().count, Bytes(1)).ok());
    EXPECT_TRUE(stream->synchronize().ok());
    return value;
  }

  std::unique_ptr<PagePool> pool_;
  size_t before_ = 0;
};

TEST_F(PagePoolTest, WhatIsTakenAgainIsThereWithoutTheDriver) {
  const CUdeviceptr window = open(4);
  EXPECT_THAT(take(window, {0, 1, 3}), ElementsAre(0, 1, 3));
  write(window, 3, 7);
  pool_->give_back(window, Pages{1, 3});
  const uint64_t calls = pool_->driver_calls();
  EXPECT_THAT(take(window, {1, 3}), IsEmpty());
  EXPECT_EQ(value_at(window, 3), 7);
  EXPECT_EQ(pool_->driver_calls(), calls);
  EXPECT_EQ(pool_->size(), pool_->page() * 3);
}

TEST_F(PagePoolTest, AnAddressStaysWhenItsMemoryWentAndCame) {
  const CUdeviceptr window = open(2);
  take(window, {0, 1});
  pool_->give_back(window, Pages{0});
  pool_->shrink(pool_->page() * 2);
  EXPECT_EQ(pool_->size(), pool_->page()) << "what is taken stays";
  EXPECT_EQ(before_ - free_memory(), pool_->page().count);
  EXPECT_THAT(take(window, {0}), ElementsAre(0));
  write(window, 0, 9);
  EXPECT_EQ(value_at(window, 0), 9);
}

TEST_F(PagePoolTest, GrowsAheadAndNewPagesGoFirst) {
  pool_->grow_to(pool_->page() * 3);
  EXPECT_EQ(pool_->size(), pool_->page() * 3);
  const CUdeviceptr window = open(3);
  take(window, {0, 1, 2});
  EXPECT_EQ(pool_->size(), pool_->page() * 3);
}

TEST_F(PagePoolTest, WhereTheDeviceHasNoMoreAFreePageChangesItsWindow) {
  const CUdeviceptr one = open(4), other = open(4);
  take(one, {0, 1});
  pool_->give_back(one, Pages{0});
  auto rest = all_that_is_left();
  EXPECT_EQ(pool_->take(other, Pages{2}).error().code, ErrorCode::kResourceExhausted);
  pool_->loosen(pool_->page());
  EXPECT_THAT(take(other, {2}), ElementsAre(2));
  const auto more = pool_->take(other, Pages{0, 1});
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().code, ErrorCode::kResourceExhausted);
  rest.reset();
  EXPECT_THAT(take(other, {0, 1}), ElementsAre(0, 1));
  EXPECT_THAT(take(one, {0}), ElementsAre(0));
}

TEST_F(PagePoolTest, WhatCouldNotBeTakenIsStillForeignLater) {
  const CUdeviceptr window = open(3);
  pool_->grow_to(pool_->page());
  auto rest = all_that_is_left();
  const uint64_t calls = pool_->driver_calls();
  EXPECT_FALSE(pool_->take(window, Pages{0, 2}).ok());
  EXPECT_EQ(pool_->driver_calls(), calls + 1) << "nothing was mapped, and unmapped again";
  rest.reset();
  EXPECT_THAT(take(window, {0, 2}), ElementsAre(0, 2));
}

TEST_F(PagePoolTest, WhatWasNotCleanedIsForeignAgain) {
  const CUdeviceptr window = open(3);
  for (int i = 0; i < 2; ++i) {
    const auto runs = pool_->take(window, Pages{0, 1, 2});
    ASSERT_TRUE(runs.ok());
    ASSERT_EQ(runs->size(), 1u);
    EXPECT_EQ(runs->front().size, pool_->page() * 3);
    if (i == 1) {
      const PagePool::Run middle = {window + pool_->page().count, pool_->page()};
      pool_->cleaned(window, {&middle, 1});
    }
    pool_->give_back(window, Pages{0, 1, 2});
  }
  EXPECT_THAT(take(window, {0, 1, 2}), ElementsAre(0, 2));
}

TEST_F(PagePoolTest, AWindowThatIsClosedLeavesItsPagesToOthers) {
  const CUdeviceptr window = open(2);
  take(window, {0});
  pool_->close(window);
  EXPECT_EQ(pool_->size(), Bytes(0));
  const CUdeviceptr again = open(2);
  EXPECT_THAT(take(again, {0, 1}), ElementsAre(0, 1));
}

// Windows that take and give back while another thread gives to the device what lies free.
TEST_F(PagePoolTest, HoldsWhatIsWrittenWhileItShrinks) {
  constexpr uint32_t kWindows = 3, kPages = 6;
  std::atomic<bool> over = false;
  std::thread shrinking([&] {
    EXPECT_TRUE(context_->enter().ok());
    while (!over) pool_->shrink(pool_->page());
  });
  std::mt19937 random(5);
  struct Window {
    CUdeviceptr address = 0;
    std::vector<bool> taken = std::vector<bool>(kPages, false);
    std::vector<unsigned char> value = std::vector<unsigned char>(kPages, 0);
  };
  std::vector<Window> windows(kWindows);
  for (Window& window : windows) window.address = open(kPages);
  for (int round = 0; round < 300; ++round) {
    Window& window = windows[random() % kWindows];
    Pages chosen;
    const bool takes = random() % 2 == 0;
    for (uint32_t page = 0; page < kPages; ++page) {
      if (window.taken[page] != takes && random() % 2 == 0) chosen.push_back(page);
    }
    for (const uint32_t page : chosen) {
      if (!takes) {
        EXPECT_EQ(value_at(window.address, page), window.value[page]);
      }
      window.taken[page] = takes;
    }
    if (!takes) {
      pool_->give_back(window.address, chosen);
      continue;
    }
    const Pages foreign = take(window.address, chosen);
    for (const uint32_t page : chosen) {
      const bool is_foreign = std::ranges::count(foreign, page) != 0;
      if (!is_foreign) {
        EXPECT_EQ(value_at(window.address, page), window.value[page]);
      }
      window.value[page] = static_cast<unsigned char>(random());
      write(window.address, page, window.value[page]);
    }
  }
  over = true;
  shrinking.join();
  for (const Window& window : windows) pool_->close(window.address);
  pool_->shrink(pool_->size());
  EXPECT_EQ(pool_->size(), Bytes(0));
}

}  // namespace
}  // namespace lambent::executor
