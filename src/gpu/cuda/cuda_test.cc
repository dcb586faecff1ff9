#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "core/base/testing/testing.h"
#include "gpu/cuda/device.h"
#include "gpu/cuda/driver.h"
#include "gpu/cuda/graph.h"
#include "gpu/cuda/stream.h"
#include "gpu/cuda/virtual_memory.h"

namespace lambent::cuda {
namespace {

// Runs on the emulated driver: once it is loaded under its name, libcuda.so.1 means it.
class CudaTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    setenv("EMULATED_CUDA_NODE", (*folder_ / "node").c_str(), 1);
    setenv("EMULATED_CUDA_CONFIG", "tiny", 1);
    dlopen(LAMBENT_BINARY_DIR "/lib/emulated/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  }
  static void TearDownTestSuite() { folder_.reset(); }

  void SetUp() override {
    auto loaded = Driver::load();
    if (!loaded.ok()) {
      ASSERT_EQ(loaded.error().code, ErrorCode::kUnavailable);
      GTEST_SKIP() << to_string(loaded.error());
    }
    driver_ = std::move(*loaded);
    auto context = Context::create(*driver_, 0);
    ASSERT_TRUE(context.ok()) << to_string(context.error());
    context_.emplace(std::move(*context));
  }

  size_t free_memory() const {
    size_t free = 0, total = 0;
    EXPECT_EQ((*driver_)->mem_get_info(&free, &total), CUDA_SUCCESS);
    return free;
  }

  static inline std::unique_ptr<TemporaryFolder> folder_;
  std::unique_ptr<Driver> driver_;
  std::optional<Context> context_;
};

TEST_F(CudaTest, ABufferKeepsWhatIsWrittenAndGivesItsMemoryBack) {
  const size_t before = free_memory();
  {
    auto buffer = DeviceBuffer::allocate(*driver_, Bytes::mib(64));
    ASSERT_TRUE(buffer.ok());
    DeviceBuffer moved = std::move(*buffer);
    EXPECT_LE(free_memory() + Bytes::mib(64).count, before);
    ASSERT_TRUE(moved.fill(7).ok());
    const std::byte written[2] = {std::byte{1}, std::byte{2}};
    ASSERT_TRUE(moved.write(written).ok());
    std::byte read[3] = {};
    ASSERT_TRUE(moved.read(read).ok());
    EXPECT_EQ(read[1], std::byte{2});
    EXPECT_EQ(read[2], std::byte{7});
  }
  EXPECT_EQ(free_memory(), before);
}

TEST_F(CudaTest, CopiesBeyondABufferAreRefused) {
  auto buffer = DeviceBuffer::allocate(*driver_, Bytes(2));
  ASSERT_TRUE(buffer.ok());
  std::byte three[3] = {};
  EXPECT_EQ(buffer->write(three).error().code, ErrorCode::kOutOfRange);
  EXPECT_EQ(buffer->read(three).error().code, ErrorCode::kOutOfRange);
}

TEST_F(CudaTest, ErrorsCarryCudasName) {
  const auto buffer = DeviceBuffer::allocate(*driver_, Bytes::gib(1 << 20));
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(buffer.error().message.find("CUDA_ERROR_OUT_OF_MEMORY (2)"), std::string::npos);

  const auto module = Module::load(*driver_, std::string(4096, 'x'));
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.error().code, ErrorCode::kFailedPrecondition) << module.error().message;
  EXPECT_FALSE(Context::create(*driver_, 99).ok());
}

TEST_F(CudaTest, MappedMemoryIsUsedThroughStreamsAndGoesBack) {
  const size_t before = free_memory();
  {
    const auto unit = mapping_granularity(*driver_, 0);
    ASSERT_TRUE(unit.ok());
    auto addresses = ReservedAddresses::reserve(*driver_, 0, *unit * 4);
    ASSERT_TRUE(addresses.ok()) << to_string(addresses.error());
    const CUdeviceptr place = addresses->base() + unit->count;
    {
      const auto memory = PhysicalMemory::create(*driver_, 0, *unit);
      ASSERT_TRUE(memory.ok());
      ASSERT_TRUE(addresses->map(place, *memory).ok());
    }
    const auto stream = Stream::create(*driver_);
    const auto pinned = PinnedBuffer::allocate(*driver_, Bytes(4));
    const auto event = Event::create(*driver_);
    ASSERT_TRUE(stream.ok() && pinned.ok() && event.ok());
    memcpy(pinned->pointer(), "abcd", 4);
    ASSERT_TRUE(stream->zero(place, Bytes(8)).ok());
    ASSERT_TRUE(stream->copy_to_device(place + 2, pinned->pointer(), Bytes(4)).ok());
    ASSERT_TRUE(stream->copy_on_device(place, place + 3, Bytes(2)).ok());
    ASSERT_TRUE(stream->copy_to_host(pinned->pointer(), place, Bytes(4)).ok());
    ASSERT_TRUE(stream->record(*event).ok());
    ASSERT_TRUE(event->synchronize().ok());
    EXPECT_EQ(std::string(static_cast<char*>(pinned->pointer()), 4), "bcab");
    const auto idle = stream->is_idle();
    ASSERT_TRUE(idle.ok());
    EXPECT_TRUE(addresses->unmap(place, *unit).ok());
  }
  EXPECT_EQ(free_memory(), before);
}

TEST_F(CudaTest, MemoryIsSharedAsADescriptorAndStaysWhileSomebodyHasIt) {
  const size_t before = free_memory();
  ASSERT_EQ(sharing_of(*driver_, 0), Sharing::kDescriptor);
  {
    const auto unit = mapping_granularity(*driver_, 0);
    ASSERT_TRUE(unit.ok());
    auto addresses = ReservedAddresses::reserve(*driver_, 0, *unit * 4);
    ASSERT_TRUE(addresses.ok());
    const CUdeviceptr here = addresses->base(), there = here + 2 * unit->count;
    {
      const auto memory = PhysicalMemory::create(*driver_, 0, *unit, Sharing::kDescriptor);
      ASSERT_TRUE(memory.ok());
      ASSERT_TRUE(addresses->map(here, *memory).ok());
    }
    const auto stream = Stream::create(*driver_);
    const auto pinned = PinnedBuffer::allocate(*driver_, Bytes(4));
    ASSERT_TRUE(stream.ok() && pinned.ok());
    memcpy(pinned->pointer(), "abcd", 4);
    ASSERT_TRUE(stream->copy_to_device(here, pinned->pointer(), Bytes(4)).ok());
    ASSERT_EQ((*driver_)->ctx_synchronize(), CUDA_SUCCESS);
    auto descriptor = export_memory(*driver_, here);
    ASSERT_TRUE(descriptor.ok()) << to_string(descriptor.error());
    EXPECT_TRUE(addresses->unmap(here, *unit).ok());
    {
      const auto memory = PhysicalMemory::import(*driver_, *descriptor, *unit);
      ASSERT_TRUE(memory.ok()) << to_string(memory.error());
      ASSERT_TRUE(addresses->map(there, *memory).ok());
    }
    memset(pinned->pointer(), 0, 4);
    ASSERT_TRUE(stream->copy_to_host(pinned->pointer(), there, Bytes(4)).ok());
    ASSERT_EQ((*driver_)->ctx_synchronize(), CUDA_SUCCESS);
    EXPECT_EQ(std::string(static_cast<char*>(pinned->pointer()), 4), "abcd");
    EXPECT_TRUE(addresses->unmap(there, *unit).ok());
  }
  EXPECT_EQ(free_memory(), before);
}

TEST_F(CudaTest, WhatIsNoMemoryIsNotImported) {
  const OwnedFd nothing(memfd_create("nothing", 0));
  EXPECT_FALSE(PhysicalMemory::import(*driver_, nothing, Bytes::mib(2)).ok());
}

TEST_F(CudaTest, ACallBackComesWhenTheStreamHasDoneItsWork) {
  const auto stream = Stream::create(*driver_);
  ASSERT_TRUE(stream.ok());
  struct Seen {
    int calls = 0;
    CUresult status = CUDA_ERROR_UNKNOWN;
  } seen;
  const auto count = [](CUstream, CUresult status, void* data) {
    auto& called = *static_cast<Seen*>(data);
    ++called.calls;
    called.status = status;
  };
  ASSERT_TRUE(stream->call_back(count, &seen).ok());
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(seen.calls, 1);
  EXPECT_EQ(seen.status, CUDA_SUCCESS);
}

}  // namespace
}  // namespace lambent::cuda
