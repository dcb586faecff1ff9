#include "emulator/emulated_cuda/virtual_memory.h"

#include <gtest/gtest.h>

#include <cstring>

namespace lambent::emulated_cuda {
namespace {

constexpr size_t kUnit = kMappingGranularityBytes;
constexpr AccessChange kOpen[] = {{0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};

class VirtualMemoryTest : public testing::Test {
 protected:
  CUmemGenericAllocationHandle create(size_t bytes, size_t backing_bytes) {
    auto made = PhysicalMemory::create(backing, bytes, backing_bytes, 0, {});
    made->on_gone = [this](const PhysicalMemory&) { gone++; };
    return virtual_memory.add(std::move(made));
  }
  uintptr_t reserve(size_t bytes) {
    uintptr_t base = 0;
    EXPECT_EQ(virtual_memory.reserve(bytes, 0, 0, &base), CUDA_SUCCESS);
    return base;
  }

  int gone = 0;
  Memory memory;
  std::shared_ptr<Backing> backing = std::make_shared<Backing>();
  VirtualMemory virtual_memory{memory};
};

TEST_F(VirtualMemoryTest, TheLastOfHandlesAndMappingsGivesTheMemoryBack) {
  auto handle = create(kUnit, kUnit);
  uintptr_t base = reserve(kUnit);
  ASSERT_EQ(virtual_memory.map(base, kUnit, 0, handle), CUDA_SUCCESS);
  CUmemGenericAllocationHandle same = 0;
  ASSERT_EQ(virtual_memory.release(handle), CUDA_SUCCESS);
  ASSERT_EQ(virtual_memory.retain(base, &same), CUDA_SUCCESS);
  EXPECT_EQ(same, handle);
  ASSERT_EQ(virtual_memory.unmap(base, kUnit), CUDA_SUCCESS);
  EXPECT_EQ(gone, 0);
  ASSERT_EQ(virtual_memory.release(same), CUDA_SUCCESS);
  EXPECT_EQ(gone, 1);
  EXPECT_EQ(virtual_memory.release(same), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VirtualMemoryTest, ScaledMemoryRepeatsItsPages) {
  auto handle = create(4 * kUnit, kUnit / 2);
  uintptr_t base = reserve(4 * kUnit);
  ASSERT_EQ(virtual_memory.map(base, 4 * kUnit, 0, handle), CUDA_SUCCESS);
  ASSERT_EQ(virtual_memory.set_access(base, 4 * kUnit, kOpen), CUDA_SUCCESS);
  auto* bytes = reinterpret_cast<volatile char*>(base);
  bytes[3] = 42;
  EXPECT_EQ(bytes[7 * (kUnit / 2) + 3], 42);
  EXPECT_EQ(memory.find(base, 1)->backing_bytes, kUnit / 2);
}

TEST_F(VirtualMemoryTest, ARangeOverAdjoiningMappingsHasTheLeastAccessOfAll) {
  uintptr_t base = reserve(3 * kUnit);
  for (int i = 0; i < 3; i++) {
    ASSERT_EQ(virtual_memory.map(base + i * kUnit, kUnit, 0, create(kUnit, kUnit)), CUDA_SUCCESS);
  }
  ASSERT_EQ(virtual_memory.set_access(base, 2 * kUnit, kOpen), CUDA_SUCCESS);
  EXPECT_EQ(memory.find(base, 2 * kUnit)->access, Access::kReadWrite);
  EXPECT_EQ(memory.find(base + kUnit, kUnit + 1)->access, Access::kNone);
  EXPECT_FALSE(memory.find(base, 3 * kUnit + 1));
  ASSERT_EQ(virtual_memory.unmap(base + kUnit, kUnit), CUDA_SUCCESS);
  EXPECT_FALSE(memory.find(base, 2 * kUnit));
  EXPECT_TRUE(memory.find(base + 2 * kUnit, kUnit));
}

TEST_F(VirtualMemoryTest, AnImportIsTheSamePagesAndNothingElseIsMemory) {
  CUmemAllocationProp properties{};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  auto made = PhysicalMemory::create(backing, kUnit, kUnit, 3, properties);
  ASSERT_TRUE(made->exportable());
  EXPECT_EQ(made->exported().magic, 0u);
  int descriptor = made->export_descriptor({.node = 5, .shared = {7, 8}});
  auto imported = PhysicalMemory::import(descriptor);
  ASSERT_TRUE(imported);
  EXPECT_EQ(imported->bytes(), kUnit);
  EXPECT_EQ(imported->device(), 3);
  EXPECT_EQ(imported->exported().shared.id, 8u);
  uintptr_t a = reserve(kUnit), b = reserve(kUnit);
  ASSERT_EQ(virtual_memory.map(a, kUnit, 0, virtual_memory.add(made)), CUDA_SUCCESS);
  ASSERT_EQ(virtual_memory.map(b, kUnit, 0, virtual_memory.add(imported)), CUDA_SUCCESS);
  virtual_memory.set_access(a, kUnit, kOpen);
  virtual_memory.set_access(b, kUnit, kOpen);
  std::memcpy(reinterpret_cast<void*>(a + 10), "shared", 7);
  EXPECT_STREQ(reinterpret_cast<char*>(b + 10), "shared");
  EXPECT_FALSE(PhysicalMemory::import(-1));
  EXPECT_FALSE(PhysicalMemory::import(0));
}

}  // namespace
}  // namespace lambent::emulated_cuda
