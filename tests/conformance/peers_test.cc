// Several devices: who reaches whose memory, by which way, and how fast.
#include <unistd.h>

#include "conformance/fixture.h"

namespace lambent::conformance {
namespace {

class Peers : public WithContext {
 protected:
  void SetUp() override {
    WithContext::SetUp();
    OK(cu.device_get_count(&count));
    if (count < 2) GTEST_SKIP() << "there is one device only";
    OK(cu.ctx_create_v2(&other, 0, 1));
    OK(cu.ctx_set_current(context));
  }
  void TearDown() override {
    if (other) cu.ctx_destroy(other);
    cu.ctx_set_current(context);
    WithContext::TearDown();
  }
  CUdeviceptr allocate_on(CUcontext where, size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cu.ctx_push_current(where), CUDA_SUCCESS);
    EXPECT_EQ(cu.mem_alloc(&address, bytes), CUDA_SUCCESS);
    CUcontext popped;
    cu.ctx_pop_current(&popped);
    return address;
  }
  bool reachable(int device, int peer) {
    int can = 0;
    EXPECT_EQ(cu.device_can_access_peer(&can, device, peer), CUDA_SUCCESS);
    return can != 0;
  }

  int count = 0;
  CUcontext other = nullptr;
};

TEST_F(Peers, AttributesAndAccessAgree) {
  int supported = -1, rank = -1;
  OK(cu.device_get_p2p_attribute(&supported, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
  EXPECT_EQ(supported, reachable(0, 1));
  OK(cu.device_get_p2p_attribute(&rank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 0, 1));
  EXPECT_GE(rank, 0);
  EXPECT_FALSE(reachable(0, 0));
  EXPECT_EQ(cu.device_get_p2p_attribute(&rank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 0, 0),
            CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cu.device_can_access_peer(&supported, 0, 99), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(Peers, AccessIsOpenedOnceAndClosedOnce) {
  if (!reachable(0, 1)) {
    EXPECT_EQ(cu.ctx_enable_peer_access(other, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    return;
  }
  EXPECT_EQ(cu.ctx_disable_peer_access(other), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  OK(cu.ctx_enable_peer_access(other, 0));
  EXPECT_EQ(cu.ctx_enable_peer_access(other, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  EXPECT_EQ(cu.ctx_enable_peer_access(other, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.ctx_enable_peer_access(context, 0), CUDA_ERROR_INVALID_CONTEXT);
  OK(cu.ctx_disable_peer_access(other));
  EXPECT_EQ(cu.ctx_disable_peer_access(other), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}

TEST_F(Peers, BytesCrossFromDeviceToDevice) {
  CUdeviceptr here = allocate(4096), there = allocate_on(other, 4096);
  uint32_t word = 0;
  OK(cu.memset_d32(here, 0xFACE, 1024));
  OK(cu.memcpy_peer(there, other, here, context, 4096));
  OK(cu.memset_d32(here, 0, 1024));
  OK(cu.memcpy(here, there, 4096));
  OK(cu.memcpy_d_to_h(&word, here + 4092, 4));
  EXPECT_EQ(word, 0xFACEu);
  int ordinal = -1;
  OK(cu.pointer_get_attribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there));
  EXPECT_EQ(ordinal, 1);
}

TEST_F(Peers, MemoryIsFreedAfterTheWorkOfDevicesThatItIsOpenedTo) {
  const CUdeviceptr closed = allocate(4096), opened = allocate(4096);
  CUstream stream;
  OK(cu.ctx_set_current(other));
  OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  Gate gate;
  OK(gate.close(stream));
  OK(cu.ctx_set_current(context));
  OK(cu.mem_free(closed));
  gate.open();
  OK(cu.ctx_set_current(other));
  OK(cu.stream_synchronize(stream));
  if (!reachable(1, 0)) return;
  OK(cu.ctx_enable_peer_access(context, 0));
  LateWork work;
  OK(work.submit(stream));
  OK(cu.ctx_set_current(context));
  EXPECT_TRUE(work.is_waited_for([&] { return cu.mem_free(opened); }));
}

// A copy between devices is staged where neither is opened to the other.
TEST_F(Peers, MemoryIsFreedAfterTheWorkOfTheContextThatFreesIt) {
  const CUdeviceptr there = allocate_on(other, 4096);
  CUstream stream;
  OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  LateWork work;
  OK(work.submit(stream));
  EXPECT_TRUE(work.is_waited_for([&] { return cu.mem_free(there); }));
  OK(cu.stream_destroy(stream));
}

TEST_F(Peers, OpenedMemoryIsClosedAfterTheWorkOfTheContextThatClosesIt) {
  CUipcMemHandle handle{};
  OK(cu.ipc_get_mem_handle(&handle, allocate(4096)));
  Peer peer;
  ASSERT_TRUE(peer.start("open_memory_of_a_peer"));
  ASSERT_TRUE(peer.expect('r'));
  ASSERT_EQ(write(peer.to, &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  EXPECT_EQ(peer.wait_for_exit(), 0);
}

TEST_F(Peers, MemoryOfAPoolIsFreedAfterTheWorkOfDevicesThatThePoolIsOpenedTo) {
  if (!reachable(1, 0)) GTEST_SKIP() << "the second device does not reach the first";
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemoryPool pool;
  CUdeviceptr memory;
  CUstream own, stream;
  OK(cu.mem_pool_create(&pool, &properties));
  OK(cu.stream_create(&own, CU_STREAM_NON_BLOCKING));
  OK(cu.mem_alloc_from_pool_async(&memory, 4096, pool, own));
  OK(cu.stream_synchronize(own));
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 1},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(cu.mem_pool_set_access(pool, &access, 1));
  OK(cu.ctx_set_current(other));
  OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  LateWork work;
  OK(work.submit(stream));
  OK(cu.ctx_set_current(context));
  EXPECT_TRUE(work.is_waited_for([&] { return cu.mem_free(memory); }));
  OK(cu.mem_pool_destroy(pool));
  OK(cu.stream_destroy(own));
}

// It neither overtakes what the other device was given before, nor is overtaken by what comes then.
TEST_F(Peers, ACopyOfABoxComesInTheOrderOfBothDevices) {
  CUdeviceptr here = allocate(4096), there = allocate_on(other, 4096);
  OK(cu.memset_d32(here, 0, 1024));
  OK(cu.ctx_set_current(other));
  OK(cu.memset_d32(there, 0, 1024));
  OK(cu.ctx_synchronize());
  CUstream before, after;
  OK(cu.stream_create(&before, CU_STREAM_NON_BLOCKING));
  OK(cu.stream_create(&after, CU_STREAM_NON_BLOCKING));
  Gate gate;
  OK(gate.close(before));
  OK(cu.memset_d32_async(there, 0xFACE, 1024, before));
  OK(cu.ctx_set_current(context));
  CUDA_MEMCPY3D_PEER box{};
  box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = there;
  box.dstDevice = here;
  box.srcContext = other;
  box.dstContext = context;
  box.srcPitch = box.dstPitch = box.WidthInBytes = 64;
  box.srcHeight = box.dstHeight = box.Height = 64;
  box.Depth = 1;
  OK(cu.memcpy_3d_peer(&box));
  OK(cu.ctx_set_current(other));
  OK(cu.memset_d32_async(there, 0xBAD, 1024, after));
  OK(cu.ctx_set_current(context));
  EXPECT_EQ(cu.stream_query(nullptr), CUDA_ERROR_NOT_READY);
  gate.open();
  uint32_t word = 0;
  OK(cu.memcpy_d_to_h(&word, here + 4092, 4));
  EXPECT_EQ(word, 0xFACEu);
  OK(cu.stream_synchronize(after));
  OK(cu.memcpy_d_to_h(&word, there + 4092, 4));
  EXPECT_EQ(word, 0xBADu);
  OK(cu.ctx_set_current(other));
  OK(cu.stream_destroy(before));
  OK(cu.stream_destroy(after));
  OK(cu.ctx_set_current(context));
}

TEST_F(Peers, NvlinkIsFasterThanPcieAndPcieThanTheHost) {
  MODELLED_TIME_ONLY();
  EMULATOR_ONLY("exact costs are the emulator's");
  if (count < 4) GTEST_SKIP() << "written for four devices, of which two have NVLink";
  constexpr size_t kBytes = 40'000'000;
  CUcontext third;
  OK(cu.ctx_create_v2(&third, 0, 2));
  OK(cu.ctx_set_current(context));
  CUdeviceptr here = allocate(kBytes);
  CUdeviceptr there = allocate_on(other, kBytes), far = allocate_on(third, kBytes);
  auto took = [&](CUcontext where, CUdeviceptr to, bool named) {
    CUevent begin, end;
    float elapsed = -1;
    cu.event_create(&begin, 0);
    cu.event_create(&end, 0);
    Gate gate;
    EXPECT_EQ(gate.close(nullptr), CUDA_SUCCESS);
    cu.event_record(begin, nullptr);
    CUresult result = named ? cu.memcpy_peer_async(to, where, here, context, kBytes, nullptr)
                            : cu.memcpy_d_to_d_async(to, here, kBytes, nullptr);
    EXPECT_EQ(result, CUDA_SUCCESS);
    cu.event_record(end, nullptr);
    gate.open();
    EXPECT_EQ(cu.event_synchronize(end), CUDA_SUCCESS);
    cu.event_elapsed_time_v2(&elapsed, begin, end);
    cu.event_destroy(begin);
    cu.event_destroy(end);
    return elapsed;
  };
  EXPECT_NEAR(took(other, there, true), 1.0, 0.3);   // 40 GB/s
  EXPECT_NEAR(took(third, far, true), 4.0, 0.3);     // 10 GB/s
  EXPECT_NEAR(took(other, there, false), 8.0, 0.4);  // not opened: down and up again
  OK(cu.ctx_enable_peer_access(other, 0));
  EXPECT_NEAR(took(other, there, false), 1.0, 0.3);
  OK(cu.ctx_destroy(third));
}

TEST_F(Peers, MappedMemoryThatIsOpenedToTheOtherDeviceIsCopiedStraight) {
  MODELLED_TIME_ONLY();
  EMULATOR_ONLY("exact costs are the emulator's");
  if (!reachable(1, 0)) GTEST_SKIP() << "these devices are no peers";
  constexpr size_t kBytes = 40 << 20;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr far = 0, here = allocate(kBytes);
  OK(cu.mem_create(&handle, kBytes, &properties, 0));
  OK(cu.mem_address_reserve(&far, kBytes, 0, 0, 0));
  OK(cu.mem_map(far, kBytes, 0, handle, 0));
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(cu.mem_set_access(far, kBytes, &access, 1));
  auto took = [&] {
    CUevent begin, end;
    float elapsed = -1;
    cu.event_create(&begin, 0);
    cu.event_create(&end, 0);
    Gate gate;
    EXPECT_EQ(gate.close(nullptr), CUDA_SUCCESS);
    cu.event_record(begin, nullptr);
    EXPECT_EQ(cu.memcpy_d_to_d_async(here, far, kBytes, nullptr), CUDA_SUCCESS);
    cu.event_record(end, nullptr);
    gate.open();
    EXPECT_EQ(cu.event_synchronize(end), CUDA_SUCCESS);
    cu.event_elapsed_time_v2(&elapsed, begin, end);
    cu.event_destroy(begin);
    cu.event_destroy(end);
    return elapsed;
  };
  EXPECT_NEAR(took(), 8.4, 0.5);  // to its own device alone: down and up again, 10 GB/s each
  access.location.id = 0;
  OK(cu.mem_set_access(far, kBytes, &access, 1));
  EXPECT_NEAR(took(), 1.05, 0.3);  // 40 GB/s
  OK(cu.mem_unmap(far, kBytes));
  OK(cu.mem_release(handle));
}

TEST_F(Peers, MappedMemoryAndPoolsAreOpenedToPeers) {
  if (!reachable(1, 0)) GTEST_SKIP() << "these devices are no peers";
  size_t unit = 2 << 20;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  OK(cu.mem_create(&handle, unit, &properties, 0));
  OK(cu.mem_address_reserve(&address, unit, 0, 0, 0));
  OK(cu.mem_map(address, unit, 0, handle, 0));
  CUmemAccessDesc both[] = {{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                            {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
  OK(cu.mem_set_access(address, unit, both, 2));
  unsigned long long flags = 0;
  OK(cu.mem_get_access(&flags, &both[1].location, address));
  EXPECT_EQ(flags, unsigned{CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  OK(cu.mem_unmap(address, unit));
  OK(cu.mem_release(handle));
  CUmemoryPool pool = nullptr;
  CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  OK(cu.device_get_default_mem_pool(&pool, 0));
  OK(cu.mem_pool_get_access(&access, pool, &both[1].location));
  EXPECT_EQ(access, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  OK(cu.mem_pool_set_access(pool, &both[1], 1));
  OK(cu.mem_pool_get_access(&access, pool, &both[1].location));
  EXPECT_EQ(access, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

}  // namespace
}  // namespace lambent::conformance
