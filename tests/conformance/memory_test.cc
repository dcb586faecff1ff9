#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "conformance/fixture.h"

namespace lambent::conformance {
namespace {

using Memory = WithContext;

TEST_F(Memory, AllocationsAreCountedAndGivenBack) {
  size_t before = free_bytes();
  CUdeviceptr address = allocate(64 << 20);
  EXPECT_LE(free_bytes(), before - (64 << 20));
  OK(cu.mem_free(address));
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(Memory, DestroyingAContextGivesItsMemoryBack) {
  size_t before = free_bytes();
  CUcontext other;
  OK(cu.ctx_create_v2(&other, 0, 0));
  allocate(32 << 20);
  OK(cu.ctx_destroy(other));
  EXPECT_EQ(free_bytes(), before);
}

// Also that of other contexts, which see the same memory.
TEST_F(Memory, IsFreedAfterAllWorkOfItsDeviceThatMayUseIt) {
  CUcontext other;
  CUstream stream;
  OK(cu.ctx_create_v2(&other, 0, 0));
  OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  OK(cu.ctx_set_current(context));
  const CUdeviceptr memory = allocate(4096);
  void* host = nullptr;
  OK(cu.mem_host_alloc(&host, 4096, 0));
  std::vector<char> own(1 << 16);
  OK(cu.mem_host_register(own.data(), own.size(), 0));
  LateWork first, second, third;
  OK(cu.ctx_set_current(other));
  OK(first.submit(stream));
  OK(cu.ctx_set_current(context));
  EXPECT_TRUE(first.is_waited_for([&] { return cu.mem_free(memory); }));
  OK(cu.ctx_set_current(other));
  OK(second.submit(stream));
  OK(cu.ctx_set_current(context));
  EXPECT_TRUE(second.is_waited_for([&] { return cu.mem_free_host(host); }));
  OK(cu.ctx_set_current(other));
  OK(third.submit(stream));
  OK(cu.ctx_set_current(context));
  EXPECT_TRUE(third.is_waited_for([&] { return cu.mem_host_unregister(own.data()); }));
  OK(cu.ctx_destroy(other));
  OK(cu.ctx_set_current(context));
}

TEST_F(Memory, MoreThanThereIsIsRefused) {
  size_t total = 0, free = 0;
  OK(cu.mem_get_info(&free, &total));
  CUdeviceptr address = 0;
  EXPECT_EQ(cu.mem_alloc(&address, total + 1), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cu.mem_alloc(&address, size_t{1} << 60), CUDA_ERROR_OUT_OF_MEMORY);
  CUdeviceptr most = allocate(free / 4 * 3);
  EXPECT_EQ(cu.mem_alloc(&address, free / 2), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cu.mem_free(most));
  EXPECT_EQ(cu.mem_alloc(&address, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, BytesSurviveEveryKindOfCopyAtAnyOffset) {
  std::vector<unsigned char> out(100'003), back(100'003);
  std::iota(out.begin(), out.end(), 0);
  CUdeviceptr a = allocate(200'000), b = allocate(200'000);
  OK(cu.memcpy_h_to_d(a + 7, out.data(), out.size()));
  OK(cu.memcpy_d_to_d(b + 13, a + 7, out.size()));
  OK(cu.memcpy_d_to_h(back.data(), b + 13, out.size()));
  EXPECT_EQ(out, back);
  std::fill(back.begin(), back.end(), 0);
  auto host = [](void* p) { return reinterpret_cast<CUdeviceptr>(p); };
  OK(cu.memcpy(a, host(out.data()), out.size()));
  OK(cu.memcpy(b, a, out.size()));
  OK(cu.memcpy(host(back.data()), b, out.size()));
  EXPECT_EQ(out, back);
}

TEST_F(Memory, CopiesOfNothingSucceed) {
  CUdeviceptr a = allocate(16);
  char byte = 0;
  OK(cu.memcpy_h_to_d(a, &byte, 0));
  OK(cu.memcpy_d_to_h(&byte, a, 0));
  OK(cu.memset_d8(a, 1, 0));
}

TEST_F(Memory, CopiesOutsideAnAllocationAreErrors) {
  CUdeviceptr a = allocate(1000);
  std::vector<char> host(5000);
  EXPECT_EQ(cu.memcpy_h_to_d(a, host.data(), 5000), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.memcpy_d_to_h(host.data(), 0x1234, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.memset_d8(a + 999, 1, 4000), CUDA_ERROR_INVALID_VALUE);
  OK(cu.mem_free(a));
  EXPECT_EQ(cu.memcpy_d_to_h(host.data(), a, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_free(a), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, SmallPageableMemoryMayChangeOnceACopyFromItReturns) {
  CUstream stream;
  OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr address = allocate(64 << 10);
  std::vector<unsigned char> bytes(64 << 10, 3);
  Gate gate;
  OK(gate.close(stream));
  OK(cu.memcpy_h_to_d_async(address, bytes.data(), bytes.size(), stream));  // returns at once
  std::fill(bytes.begin(), bytes.end(), 4);
  gate.open();
  OK(cu.stream_synchronize(stream));
  OK(cu.memcpy_d_to_h(bytes.data(), address, bytes.size()));
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 3), 64 << 10);
  OK(cu.mem_free(address));
  OK(cu.stream_destroy(stream));
}

TEST_F(Memory, HostMemoryThatIsNotThereIsAnError) {
  EMULATOR_ONLY("where the host's memory is missing CUDA promises nothing");
  const size_t page = 4096;
  auto* pages = static_cast<char*>(
      mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(munmap(pages + page, page), 0);
  ASSERT_EQ(mprotect(pages + 2 * page, page, PROT_READ), 0);
  CUdeviceptr address = allocate(2 * page);
  CUstream stream;
  OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  OK(cu.memcpy_h_to_d(address, pages, page));
  EXPECT_EQ(cu.memcpy_h_to_d(address, pages, page + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.memcpy_h_to_d_async(address, pages + page, 16, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.memcpy_d_to_h(pages + page - 1, address, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.memcpy_d_to_h_async(pages + 2 * page, address, 16, stream),
            CUDA_ERROR_INVALID_VALUE);  // it may only be read
  OK(cu.memcpy_h_to_d(address, pages + 2 * page, page));
  OK(cu.ctx_synchronize());

  // A graph's copy finds that out when it runs, and breaks its context alone.
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = pages + page;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = address;
  copy.WidthInBytes = 16;
  copy.Height = copy.Depth = 1;
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec exec;
  OK(cu.graph_create(&graph, 0));
  OK(cu.graph_add_memcpy_node(&node, graph, nullptr, 0, &copy, context));
  OK(cu.graph_instantiate(&exec, graph, 0));
  OK(cu.graph_launch(exec, stream));
  EXPECT_EQ(cu.stream_synchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  OK(cu.graph_exec_destroy(exec));
  OK(cu.graph_destroy(graph));
  munmap(pages, page);
  munmap(pages + 2 * page, page);
}

TEST_F(Memory, FillsWriteEveryElementSize) {
  CUdeviceptr a = allocate(4096);
  std::vector<uint32_t> words(1024);
  OK(cu.memset_d32(a, 0xDEADBEEF, 1024));
  OK(cu.memset_d16(a, 0x1234, 2));
  OK(cu.memset_d8(a + 4, 0xAA, 3));
  OK(cu.memcpy_d_to_h(words.data(), a, 4096));
  EXPECT_EQ(words[0], 0x12341234u);
  EXPECT_EQ(words[1], 0xDEAAAAAAu);
  EXPECT_EQ(words[1023], 0xDEADBEEFu);
  EXPECT_EQ(cu.memset_d32(a + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, FillsOfRowsLeaveTheRestOfThePitchAlone) {
  CUdeviceptr a = allocate(4096);
  std::vector<uint16_t> halves(2048);
  OK(cu.memset_d8(a, 0xFF, 4096));
  OK(cu.memset_2d_d16_async(a, 1024, 0x1234, 100, 4, nullptr));
  OK(cu.memcpy_d_to_h(halves.data(), a, 4096));
  EXPECT_EQ(halves[0], 0x1234);
  EXPECT_EQ(halves[3 * 512 + 99], 0x1234);
  EXPECT_EQ(halves[100], 0xFFFF);
  EXPECT_EQ(halves[3 * 512 + 100], 0xFFFF);
  EXPECT_EQ(cu.memset_2d_d16_async(a, 100, 0, 100, 4, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.memset_2d_d8_async(a, 1024, 0, 1024, 5, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, RowsOfATwoDimensionalCopyKeepTheirPitch) {
  CUdeviceptr image = 0;
  size_t pitch = 0;
  OK(cu.mem_alloc_pitch(&image, &pitch, 100, 8, 4));
  EXPECT_GE(pitch, 100u);
  std::vector<unsigned char> out(800), back(800);
  std::iota(out.begin(), out.end(), 3);
  CUDA_MEMCPY2D request{};
  request.srcMemoryType = CU_MEMORYTYPE_HOST;
  request.srcHost = out.data();
  request.srcPitch = 100;
  request.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  request.dstDevice = image;
  request.dstPitch = pitch;
  request.WidthInBytes = 100;
  request.Height = 8;
  OK(cu.memcpy_2d(&request));
  CUDA_MEMCPY2D reverse{};
  reverse.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  reverse.srcDevice = image;
  reverse.srcPitch = pitch;
  reverse.dstMemoryType = CU_MEMORYTYPE_HOST;
  reverse.dstHost = back.data();
  reverse.dstPitch = 100;
  reverse.WidthInBytes = 100;
  reverse.Height = 8;
  OK(cu.memcpy_2d(&reverse));
  EXPECT_EQ(out, back);
}

TEST_F(Memory, PageLockedMemoryHasOneAddressForHostAndDevice) {
  void* host = nullptr;
  CUdeviceptr device = 0;
  OK(cu.mem_host_alloc(&host, 10000, CU_MEMHOSTALLOC_DEVICEMAP));
  OK(cu.mem_host_get_device_pointer(&device, host, 0));
  EXPECT_EQ(device, reinterpret_cast<CUdeviceptr>(host));
  unsigned type = 0;
  OK(cu.pointer_get_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device));
  EXPECT_EQ(type, unsigned{CU_MEMORYTYPE_HOST});
  OK(cu.mem_free_host(host));
  EXPECT_NE(cu.mem_free_host(host), CUDA_SUCCESS);

  std::vector<char> own(1 << 16);
  OK(cu.mem_host_register(own.data(), own.size(), 0));
  EXPECT_EQ(cu.mem_host_register(own.data(), own.size(), 0),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  OK(cu.mem_host_unregister(own.data()));
  EXPECT_EQ(cu.mem_host_unregister(own.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  // More than there are addresses.
  EXPECT_EQ(cu.mem_host_register(own.data(), SIZE_MAX, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.mem_host_unregister(own.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST_F(Memory, AddressesTellWhatTheyAre) {
  CUdeviceptr a = allocate(5000), base = 0;
  size_t bytes = 0;
  unsigned type = 0;
  int ordinal = -1;
  CUcontext owner = nullptr;
  OK(cu.mem_get_address_range(&base, &bytes, a + 100));
  EXPECT_EQ(base, a);
  EXPECT_EQ(bytes, 5000u);
  OK(cu.pointer_get_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a + 1));
  EXPECT_EQ(type, unsigned{CU_MEMORYTYPE_DEVICE});
  OK(cu.pointer_get_attribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, a));
  EXPECT_EQ(owner, context);
  int local = 0;
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* answers[] = {&type, &ordinal};
  OK(cu.pointer_get_attributes(2, asked, answers, a));
  EXPECT_EQ(ordinal, 0);
  EXPECT_EQ(cu.pointer_get_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                     reinterpret_cast<CUdeviceptr>(&local)),
            CUDA_ERROR_INVALID_VALUE);
  OK(cu.pointer_get_attributes(2, asked, answers, reinterpret_cast<CUdeviceptr>(&local)));
  EXPECT_EQ(type, 0u);
}

}  // namespace
}  // namespace lambent::conformance
