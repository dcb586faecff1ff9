// Managed memory: one address for host and devices, advice, prefetches and what they cost.
#include "conformance/fixture.h"

namespace lambent::conformance {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

class Managed : public WithKernels {
 protected:
  void SetUp() override {
    WithKernels::SetUp();
    int supported = 0;
    OK(cu.device_get_attribute(&supported, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0));
    if (!supported) GTEST_SKIP() << "host and device cannot share managed memory at any time here";
    OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  }
  CUdeviceptr managed(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cu.mem_alloc_managed(&address, bytes, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    return address;
  }
  int ask(CUdeviceptr address, size_t bytes, CUmem_range_attribute attribute) {
    int value = -99;
    EXPECT_EQ(cu.mem_range_get_attribute(&value, sizeof value, attribute, address, bytes),
              CUDA_SUCCESS);
    return value;
  }

  CUstream stream = nullptr;
  const CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0}, host{CU_MEM_LOCATION_TYPE_HOST, 0};
};

TEST_F(Managed, HostAndDeviceSeeTheSameBytes) {
  CUdeviceptr a = managed(4096);
  auto* words = reinterpret_cast<volatile uint32_t*>(a);
  words[0] = 41;
  uint32_t word = 0;
  OK(cu.memcpy_d_to_h(&word, a, 4));
  EXPECT_EQ(word, 41u);
  OK(cu.memset_d32(a, 0, 4));
  OK(launch(function("count"), 5, 32, nullptr, {&a}));
  OK(cu.ctx_synchronize());
  if (!driver().model_mode) {
    EXPECT_EQ(words[0], 5u);
  }
  int is_managed = 0;
  OK(cu.pointer_get_attribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, a + 5));
  EXPECT_EQ(is_managed, 1);
  OK(cu.mem_free(a));
  EXPECT_EQ(cu.mem_free(a), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Managed, MakesRoomForOtherMemory) {
  EMULATOR_ONLY("a GPU takes long to be filled");
  size_t free = 0, total = 0;
  OK(cu.mem_get_info(&free, &total));
  const size_t bytes = free / 3 * 2 / (2 * kMiB) * 2 * kMiB;
  CUdeviceptr a = managed(bytes);
  OK(cu.memset_d32(a + bytes - 4096, 0x600DF00D, 1024));
  OK(cu.mem_prefetch_async_v2(a, bytes, device, 0, stream));
  OK(cu.stream_synchronize(stream));
  EXPECT_LT(free_bytes(), free - bytes + 1);
  // Half of it has to leave; what lies there is not lost.
  CUdeviceptr plain = allocate(bytes);
  EXPECT_NE(plain, 0u);
  uint32_t word = 0;
  OK(cu.memcpy_d_to_h(&word, a + bytes - 4, 4));
  EXPECT_EQ(word, 0x600DF00Du);
  // With other memory everywhere there is no room to be made.
  CUdeviceptr more = 0;
  EXPECT_EQ(cu.mem_alloc(&more, bytes), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cu.mem_free(plain));
  CUdeviceptr of_pool = 0;
  OK(cu.mem_prefetch_async_v2(a, bytes, device, 0, stream));
  OK(cu.stream_synchronize(stream));
  OK(cu.mem_alloc_async(&of_pool, bytes, stream));
  OK(cu.mem_free_async(of_pool, stream));
  OK(cu.stream_synchronize(stream));
  OK(cu.mem_free(a));
  EXPECT_GE(free_bytes(), free - (32 << 20));  // the pool may keep a chunk
}

TEST_F(Managed, AdviceIsRememberedForEveryBlock) {
  size_t bytes = 8 * kMiB;
  CUdeviceptr a = managed(bytes);
  EXPECT_EQ(ask(a, bytes, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 0);
  EXPECT_EQ(ask(a, bytes, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION), CU_DEVICE_INVALID);
  OK(cu.mem_advise_v2(a, bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
  OK(cu.mem_advise_v2(a, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
  OK(cu.mem_advise(a, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, 0));
  EXPECT_EQ(ask(a, bytes, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 1);
  EXPECT_EQ(ask(a, bytes, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION), CU_DEVICE_CPU);
  EXPECT_EQ(ask(a, bytes, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE),
            CU_MEM_LOCATION_TYPE_HOST);
  int by[3] = {};
  OK(cu.mem_range_get_attribute(by, sizeof by, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, a, bytes));
  EXPECT_EQ(by[0], 0);
  EXPECT_EQ(by[1], CU_DEVICE_INVALID);
  OK(cu.mem_advise_v2(a, 2 * kMiB, CU_MEM_ADVISE_UNSET_READ_MOSTLY, device));
  EXPECT_EQ(ask(a, bytes, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 0);
  EXPECT_EQ(ask(a + 2 * kMiB, bytes - 2 * kMiB, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY), 1);
  OK(cu.mem_prefetch_async_v2(a, bytes, device, 0, stream));
  EXPECT_EQ(cu.stream_synchronize(stream), CUDA_SUCCESS);
  int type = 0, location = -5;
  void* answers[] = {&type, &location};
  size_t sizes[] = {sizeof type, sizeof location};
  CUmem_range_attribute asked[] = {CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE,
                                   CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID};
  OK(cu.mem_range_get_attributes(answers, sizes, asked, 2, a, bytes));
  EXPECT_EQ(type, CU_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_EQ(location, 0);
  OK(cu.mem_free(a));
}

TEST_F(Managed, WhatLiesOnTheDeviceTakesItsMemory) {
  EMULATOR_ONLY("a GPU's driver may keep room for later");
  size_t before = free_bytes();
  CUdeviceptr a = managed(16 * kMiB);
  EXPECT_EQ(free_bytes(), before);
  OK(cu.mem_prefetch_async(a, 8 * kMiB, 0, stream));
  OK(cu.stream_synchronize(stream));
  EXPECT_EQ(free_bytes(), before - 8 * kMiB);
  OK(cu.memset_d8_async(a, 1, 16 * kMiB, stream));
  OK(cu.stream_synchronize(stream));
  EXPECT_EQ(free_bytes(), before - 16 * kMiB);
  OK(cu.mem_prefetch_async(a, 16 * kMiB, CU_DEVICE_CPU, stream));
  OK(cu.stream_synchronize(stream));
  EXPECT_EQ(free_bytes(), before);
  OK(cu.mem_free(a));
}

TEST_F(Managed, MoreThanTheDeviceHoldsIsUsedInTurns) {
  EMULATOR_ONLY("it would take long, or hang, on a GPU");
  size_t free = free_bytes(), bytes = (free / 4 * 3) >> 21 << 21;
  CUdeviceptr a = managed(bytes), b = managed(bytes);
  OK(cu.mem_prefetch_async(a, bytes, 0, stream));
  OK(cu.mem_prefetch_async(b, bytes, 0, stream));
  OK(cu.stream_synchronize(stream));
  EXPECT_LE(free_bytes(), 2 * kMiB);
  OK(cu.mem_free(a));
  OK(cu.mem_free(b));
  EXPECT_EQ(free_bytes(), free);
}

TEST_F(Managed, APrefetchSparesAKernelItsFaults) {
  MODELLED_TIME_ONLY();
  EMULATOR_ONLY("exact costs are the emulator's");
  size_t bytes = 64 * kMiB;
  CUdeviceptr a = managed(bytes);
  CUfunction count = function("count");
  auto run = [&] { return milliseconds(stream, [&] { OK(launch(count, 8, 32, stream, {&a})); }); };
  OK(cu.memset_d8_async(a, 1, bytes, stream));  // populated on the device
  float resident = run();
  auto to_host = [&] { OK(cu.mem_prefetch_async(a, bytes, CU_DEVICE_CPU, stream)); };
  float back = milliseconds(stream, to_host);
  float faulting = run();
  to_host();
  float there = milliseconds(stream, [&] { OK(cu.mem_prefetch_async(a, bytes, 0, stream)); });
  float prefetched = run();
  EXPECT_NEAR(back, 6.71, 0.1);  // 64 MiB at 10 GB/s
  EXPECT_NEAR(there, 6.71, 0.1);
  EXPECT_NEAR(faulting - resident, 13.42 + 32 * 0.01, 0.2);  // at 5 GB/s, and 10 us for each block
  EXPECT_NEAR(prefetched, resident, 0.02);
  OK(cu.mem_free(a));
}

TEST_F(Managed, BatchesMoveSeveralRanges) {
  CUdeviceptr ranges[3] = {managed(4 * kMiB), managed(4 * kMiB), managed(4 * kMiB)};
  size_t sizes[3] = {4 * kMiB, 2 * kMiB, 4 * kMiB}, from[2] = {0, 2}, wrong[2] = {1, 2};
  CUmemLocation locations[2] = {device, host};
  OK(cu.mem_prefetch_batch_async(ranges, sizes, 3, locations, from, 2, 0, stream));
  OK(cu.stream_synchronize(stream));
  EXPECT_EQ(ask(ranges[0], 4 * kMiB, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION), 0);
  EXPECT_EQ(ask(ranges[2], 4 * kMiB, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION), CU_DEVICE_CPU);
  EXPECT_EQ(ask(ranges[1], 4 * kMiB, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION),
            CU_DEVICE_INVALID);
  OK(cu.mem_discard_batch_async(ranges, sizes, 3, 0, stream));
  OK(cu.mem_discard_and_prefetch_batch_async(ranges, sizes, 3, locations, from, 2, 0, stream));
  OK(cu.stream_synchronize(stream));
  EXPECT_NE(cu.mem_prefetch_batch_async(ranges, sizes, 3, locations, from, 2, 0, nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(cu.mem_prefetch_batch_async(ranges, sizes, 3, locations, wrong, 2, 0, stream),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_prefetch_batch_async(ranges, sizes, 3, locations, from, 4, 0, stream),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_discard_batch_async(nullptr, sizes, 3, 0, stream), CUDA_ERROR_INVALID_VALUE);
  for (CUdeviceptr range : ranges) OK(cu.mem_free(range));
}

TEST_F(Managed, OnlyManagedMemoryIsMovedAndAdvised) {
  CUdeviceptr plain = allocate(4096), a = managed(4096), none = 0;
  EXPECT_EQ(cu.mem_prefetch_async(plain, 4096, 0, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_prefetch_async(a, 8192, 0, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_prefetch_async(a, 4096, 99, stream), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cu.mem_advise(plain, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_advise(a, 4096, static_cast<CUmem_advise>(77), 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_alloc_managed(&none, 0, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_alloc_managed(&none, 4096, CU_MEM_ATTACH_SINGLE), CUDA_ERROR_INVALID_VALUE);
  int value = 0;
  EXPECT_EQ(cu.mem_range_get_attribute(&value, 3, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, a, 4096),
            CUDA_ERROR_INVALID_VALUE);
  OK(cu.stream_attach_mem_async(stream, a, 0, CU_MEM_ATTACH_SINGLE));
  EXPECT_EQ(cu.stream_attach_mem_async(stream, plain, 0, CU_MEM_ATTACH_SINGLE),
            CUDA_ERROR_INVALID_VALUE);
  OK(cu.stream_synchronize(stream));
  OK(cu.mem_free(a));
}

TEST_F(Managed, AContextTakesItsManagedMemoryWithIt) {
  size_t before = free_bytes();
  CUcontext other;
  OK(cu.ctx_create_v2(&other, 0, 0));
  CUdeviceptr a = managed(8 * kMiB);
  OK(cu.memset_d8(a, 3, 8 * kMiB));
  OK(cu.ctx_destroy(other));
  if (driver().emulated) {
    EXPECT_EQ(free_bytes(), before);
  }
}

}  // namespace
}  // namespace lambent::conformance
