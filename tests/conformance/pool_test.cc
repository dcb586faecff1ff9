// Memory in the order of streams, and the pools that it comes from.
#include <unistd.h>

#include "conformance/fixture.h"

namespace lambent::conformance {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

class Pools : public WithContext {
 protected:
  void SetUp() override {
    WithContext::SetUp();
    int supported = 0;
    OK(cu.device_get_attribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
    if (!supported) GTEST_SKIP() << "this device has no memory pools";
    OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  }
  CUmemoryPool create() {
    CUmemoryPool pool = nullptr;
    EXPECT_EQ(cu.mem_pool_create(&pool, &properties), CUDA_SUCCESS);
    return pool;
  }
  CUdeviceptr take(CUmemoryPool pool, size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cu.mem_alloc_from_pool_async(&address, bytes, pool, stream), CUDA_SUCCESS);
    return address;
  }
  cuuint64_t ask(CUmemoryPool pool, CUmemPool_attribute attribute) {
    cuuint64_t value = 0;
    EXPECT_EQ(cu.mem_pool_get_attribute(pool, attribute, &value), CUDA_SUCCESS);
    return value;
  }
  CUresult set(CUmemoryPool pool, CUmemPool_attribute attribute, cuuint64_t value) {
    return cu.mem_pool_set_attribute(pool, attribute, &value);
  }

  CUstream stream = nullptr;
  CUmemPoolProps properties{};
};

TEST_F(Pools, StreamOrderedMemoryLivesUntilItsFreeIsReached) {
  CUdeviceptr address = 0;
  uint32_t word = 0;
  OK(cu.mem_alloc_async(&address, 1 << 20, stream));
  OK(cu.memset_d32_async(address, 7, 10, stream));
  OK(cu.memcpy_d_to_h_async(&word, address, 4, stream));
  OK(cu.mem_free_async(address, stream));
  OK(cu.stream_synchronize(stream));
  EXPECT_EQ(word, 7u);
}

TEST_F(Pools, AStreamFindsAtOnceWhatItFreed) {
  CUmemoryPool pool = create();
  CUdeviceptr a = take(pool, kMiB);
  OK(cu.mem_free_async(a, stream));
  EXPECT_EQ(take(pool, kMiB), a);
  OK(cu.mem_free_async(a, stream));
  EXPECT_NE(cu.mem_free_async(a, stream), CUDA_SUCCESS);
  OK(cu.mem_pool_destroy(pool));
}

TEST_F(Pools, OtherStreamsDoNotFindItBeforeTheFreeIsReached) {
  CUmemoryPool pool = create();
  CUstream other;
  CUdeviceptr a = take(pool, kMiB), b = 0, c = 0;
  OK(cu.stream_create(&other, CU_STREAM_NON_BLOCKING));
  std::atomic<int> open{0};
  auto gate = [](void* flag) { static_cast<std::atomic<int>*>(flag)->wait(0); };
  OK(cu.launch_host_func(stream, gate, &open));
  OK(cu.mem_free_async(a, stream));
  OK(cu.mem_alloc_from_pool_async(&b, kMiB, pool, other));
  EXPECT_NE(b, a);
  open = 1;
  open.notify_all();
  OK(cu.stream_synchronize(stream));
  OK(cu.mem_alloc_from_pool_async(&c, kMiB, pool, other));
  if (driver().emulated) {
    EXPECT_EQ(c, a);
  }
  OK(cu.mem_free_async(b, other));
  OK(cu.mem_free_async(c, other));
  OK(cu.mem_pool_destroy(pool));
  OK(cu.stream_destroy(other));
}

TEST_F(Pools, UseAndReserveAreCountedAndShrinkToTheThreshold) {
  size_t before = free_bytes();
  CUmemoryPool pool = create();
  OK(set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX));
  EXPECT_EQ(ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
  CUdeviceptr a = take(pool, 40 * kMiB);
  OK(cu.stream_synchronize(stream));
  EXPECT_GE(ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 40 * kMiB);
  EXPECT_GE(ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 40 * kMiB);
  EXPECT_LE(free_bytes(), before - 40 * kMiB);
  OK(cu.mem_free_async(a, stream));
  OK(cu.stream_synchronize(stream));
  EXPECT_EQ(ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);
  EXPECT_GE(ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 40 * kMiB);
  EXPECT_GE(ask(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 40 * kMiB);
  OK(set(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0));
  EXPECT_EQ(ask(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0u);
  OK(set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0));
  OK(cu.stream_synchronize(stream));
  OK(cu.mem_pool_trim_to(pool, 0));
  EXPECT_EQ(ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
  OK(cu.mem_pool_destroy(pool));
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(Pools, TrimmingKeepsWhatIsAskedFor) {
  CUmemoryPool pool = create();
  OK(set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX));
  CUdeviceptr a = take(pool, 64 * kMiB), b = take(pool, 64 * kMiB);
  OK(cu.mem_free_async(a, stream));
  OK(cu.mem_free_async(b, stream));
  OK(cu.stream_synchronize(stream));
  OK(cu.mem_pool_trim_to(pool, 64 * kMiB));
  EXPECT_GE(ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 64 * kMiB);
  OK(cu.mem_pool_trim_to(pool, 0));
  EXPECT_EQ(ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
  OK(cu.mem_pool_destroy(pool));
}

TEST_F(Pools, EachDeviceHasADefaultPoolAndACurrentOne) {
  CUmemoryPool standard = nullptr, current = nullptr, own = create(), same = nullptr;
  OK(cu.device_get_default_mem_pool(&standard, 0));
  OK(cu.device_get_mem_pool(&current, 0));
  EXPECT_EQ(current, standard);
  OK(cu.device_set_mem_pool(0, own));
  OK(cu.device_get_mem_pool(&current, 0));
  EXPECT_EQ(current, own);
  CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  OK(cu.mem_get_mem_pool(&same, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
  EXPECT_EQ(same, own);
  OK(cu.mem_get_default_mem_pool(&same, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
  EXPECT_EQ(same, standard);
  CUdeviceptr address = 0;
  OK(cu.mem_alloc_async(&address, 1000, stream));
  OK(cu.pointer_get_attribute(&same, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address));
  EXPECT_EQ(same, own);
  OK(cu.mem_pool_destroy(own));
  OK(cu.device_get_mem_pool(&current, 0));
  EXPECT_EQ(current, standard);
  OK(cu.memset_d8_async(address, 1, 1000, stream));  // it lives on until it is freed
  OK(cu.mem_free_async(address, stream));
  EXPECT_NE(cu.mem_pool_destroy(standard), CUDA_SUCCESS);
  EXPECT_EQ(cu.device_get_default_mem_pool(&standard, 99), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(Pools, PoolMemoryMayBeFreedAtOnceAndDeviceMemoryInAStream) {
  size_t before = free_bytes();
  CUdeviceptr a = 0, b = allocate(kMiB);
  OK(cu.mem_alloc_async(&a, kMiB, stream));
  OK(cu.mem_free(a));
  EXPECT_EQ(cu.mem_free(a), CUDA_ERROR_INVALID_VALUE);
  OK(cu.mem_free_async(b, stream));
  EXPECT_EQ(cu.mem_free_async(b, stream), CUDA_ERROR_INVALID_VALUE);
  OK(cu.ctx_synchronize());
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(Pools, WhatAContextTookGoesWithIt) {
  size_t before = free_bytes();
  CUcontext other;
  CUdeviceptr address = 0;
  OK(cu.ctx_create_v2(&other, 0, 0));
  OK(cu.mem_alloc_async(&address, 40 * kMiB, nullptr));
  OK(cu.ctx_destroy(other));
  if (driver().emulated) {
    EXPECT_EQ(free_bytes(), before);
  }
}

TEST_F(Pools, IdleReservesMakeRoomForOtherMemory) {
  size_t free = free_bytes();
  CUmemoryPool pool = create();
  OK(set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX));
  CUdeviceptr a = take(pool, free / 4 * 3);
  OK(cu.mem_free_async(a, stream));
  OK(cu.stream_synchronize(stream));
  CUdeviceptr b = allocate(free / 4 * 3);
  OK(cu.mem_free(b));
  OK(cu.mem_pool_destroy(pool));
}

TEST_F(Pools, MoreThanThereIsIsRefused) {
  CUdeviceptr address = 0;
  EXPECT_EQ(cu.mem_alloc_async(&address, size_t{1} << 50, stream), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cu.mem_alloc_async(&address, SIZE_MAX, stream), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cu.mem_alloc_async(nullptr, 100, stream), CUDA_ERROR_INVALID_VALUE);
  properties.maxSize = 64 * kMiB;
  CUmemoryPool pool = create();
  EXPECT_EQ(cu.mem_alloc_from_pool_async(&address, 65 * kMiB, pool, stream),
            CUDA_ERROR_OUT_OF_MEMORY);
  OK(cu.mem_pool_destroy(pool));
}

TEST_F(Pools, WrongPoolsAndAttributesAreErrors) {
  CUmemoryPool pool = create(), none = nullptr;
  cuuint64_t value = 1;
  CUdeviceptr address = 0;
  EXPECT_EQ(cu.mem_pool_set_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_pool_set_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_pool_get_attribute(pool, static_cast<CUmemPool_attribute>(99), &value),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_pool_get_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_pool_create(&none, nullptr), CUDA_ERROR_INVALID_VALUE);
  CUmemPoolProps wrong = properties;
  wrong.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
  EXPECT_EQ(cu.mem_pool_create(&none, &wrong), CUDA_ERROR_INVALID_VALUE);
  wrong = properties;
  wrong.location.id = 99;
  EXPECT_EQ(cu.mem_pool_create(&none, &wrong), CUDA_ERROR_INVALID_DEVICE);
  OK(cu.mem_pool_destroy(pool));
  EMULATOR_ONLY("a GPU's driver may not survive a pool that is none");
  EXPECT_EQ(cu.mem_pool_destroy(pool), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_pool_trim_to(pool, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_alloc_from_pool_async(&address, 100, pool, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_alloc_from_pool_async(&address, 100, nullptr, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_free_async(0x1234, stream), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Pools, APoolIsOpenToItsOwnDevice) {
  CUmemoryPool pool = create();
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  OK(cu.mem_pool_get_access(&flags, pool, &here));
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CUmemAccessDesc access{here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(cu.mem_pool_set_access(pool, &access, 1));
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  EXPECT_NE(cu.mem_pool_set_access(pool, &access, 1), CUDA_SUCCESS);
  OK(cu.mem_pool_destroy(pool));
}

TEST_F(Pools, AnotherProcessImportsAPoolAndAPointerIntoIt) {
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemoryPool pool = create();
  take(pool, 3000);
  CUdeviceptr a = take(pool, 1000);
  OK(cu.memset_d32_async(a + 996, 0x600DF00D, 1, stream));
  OK(cu.stream_synchronize(stream));
  Peer peer;
  ASSERT_TRUE(peer.start("import_pool"));
  ASSERT_TRUE(peer.expect('r'));
  int descriptor = -1;
  OK(cu.mem_pool_export_to_shareable_handle(&descriptor, pool,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  ASSERT_TRUE(send_descriptor(peer.to, descriptor));
  close(descriptor);
  CUmemPoolPtrExportData data{};
  OK(cu.mem_pool_export_pointer(&data, a));
  ASSERT_EQ(write(peer.to, &data, sizeof data), static_cast<ssize_t>(sizeof data));
  ASSERT_TRUE(peer.expect('w'));
  uint32_t word = 0;
  OK(cu.memcpy_d_to_h(&word, a, 4));
  EXPECT_EQ(word, 0xCAFEu);
  EXPECT_EQ(peer.wait_for_exit(), 0);
  CUmemoryPool closed = nullptr;
  OK(cu.device_get_default_mem_pool(&closed, 0));
  EXPECT_NE(cu.mem_pool_export_to_shareable_handle(&descriptor, closed,
                                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
  OK(cu.mem_free_async(a, stream));
  OK(cu.mem_pool_destroy(pool));
}

}  // namespace
}  // namespace lambent::conformance
