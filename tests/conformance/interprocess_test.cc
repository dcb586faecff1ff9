// Device memory that another process opens by a handle.
#include <unistd.h>

#include <cstring>

#include "conformance/fixture.h"

namespace lambent::conformance {
namespace {

class Interprocess : public WithContext {
 protected:
  // Gives the memory to a peer, which reads and writes it, until the owner frees it.
  void share(CUdeviceptr address) {
    OK(cu.memset_d32(address + 996, 0x600DF00D, 1));
    OK(cu.ctx_synchronize());
    CUipcMemHandle handle{};
    OK(cu.ipc_get_mem_handle(&handle, address));
    Peer peer;
    ASSERT_TRUE(peer.start("open_memory"));
    ASSERT_TRUE(peer.expect('r'));
    ASSERT_EQ(write(peer.to, &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
    ASSERT_TRUE(peer.expect('w'));
    uint32_t word = 0;
    OK(cu.memcpy_d_to_h(&word, address, 4));
    EXPECT_EQ(word, 0xCAFEu);
    OK(cu.memcpy_d_to_h(&word, address + 996, 4));
    EXPECT_EQ(word, 0x600DF00Du);
    if (driver().emulated) {
      size_t before = free_bytes();
      CUdeviceptr offloaded = allocate(1 << 20);
      EXPECT_LT(free_bytes(), before);
      OK(cu.mem_free(offloaded));
    }
    peer.kill_and_wait();
  }
};

TEST_F(Interprocess, SmallMemoryIsShared) {
  allocate(3000);
  CUdeviceptr a = allocate(1000), neighbour = allocate(1000);
  OK(cu.memset_d8(neighbour, 7, 1000));
  share(a);
  unsigned char byte = 0;
  OK(cu.memcpy_d_to_h(&byte, neighbour + 999, 1));
  EXPECT_EQ(byte, 7);
}

TEST_F(Interprocess, LargeMemoryIsSharedAndGoneOnceItsOwnerFreesIt) {
  CUdeviceptr a = allocate(20 << 20);
  share(a);
  OK(cu.memset_d32(a + 996, 0x600DF00D, 1));
  CUipcMemHandle handle{};
  OK(cu.ipc_get_mem_handle(&handle, a + 5000));  // any address of the allocation
  Peer peer;
  ASSERT_TRUE(peer.start("open_memory"));
  ASSERT_TRUE(peer.expect('r'));
  ASSERT_EQ(write(peer.to, &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  ASSERT_TRUE(peer.expect('w'));
  OK(cu.mem_free(a));
  peer.tell('f');
  if (driver().emulated) {
    EXPECT_TRUE(peer.expect('g'));
  }
  peer.wait_for_exit();
}

constexpr unsigned kShared = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;

TEST_F(Interprocess, AnEventIsRecordedInOneProcessAndAwaitedInAnother) {
  CUstream stream;
  CUevent event;
  CUipcEventHandle handle{};
  OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  OK(cu.event_create(&event, kShared));
  OK(cu.event_query(event));  // never recorded
  OK(cu.ipc_get_event_handle(&handle, event));
  Peer peer;
  ASSERT_TRUE(peer.start("open_event"));
  ASSERT_TRUE(peer.expect('r'));
  Gate gate;
  OK(gate.close(stream));
  OK(cu.event_record(event, stream));
  EXPECT_EQ(cu.event_query(event), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(write(peer.to, &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  ASSERT_TRUE(peer.expect('n'));  // not reached there either; a stream there waits for it
  gate.open();
  ASSERT_TRUE(peer.expect('d'));
  OK(cu.event_synchronize(event));
  // The peer records it behind a gate of its own.
  peer.tell('1');
  ASSERT_TRUE(peer.expect('s'));
  EXPECT_EQ(cu.event_query(event), CUDA_ERROR_NOT_READY);
  OK(cu.stream_wait_event(stream, event, 0));
  EXPECT_EQ(cu.stream_query(stream), CUDA_ERROR_NOT_READY);
  peer.tell('2');
  OK(cu.stream_synchronize(stream));
  OK(cu.event_synchronize(event));
  OK(cu.event_query(event));
  EXPECT_EQ(peer.wait_for_exit(), 0);
  OK(cu.event_destroy(event));
  OK(cu.stream_destroy(stream));
}

TEST_F(Interprocess, NobodyWaitsForARecordOfAProcessThatHasGone) {
  EMULATOR_ONLY("CUDA leaves open what becomes of it");
  CUstream stream;
  CUevent event;
  CUipcEventHandle handle{};
  OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  OK(cu.event_create(&event, kShared));
  OK(cu.ipc_get_event_handle(&handle, event));
  Peer peer;
  ASSERT_TRUE(peer.start("open_event"));
  ASSERT_TRUE(peer.expect('r'));
  ASSERT_EQ(write(peer.to, &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
  ASSERT_TRUE(peer.expect('n'));
  ASSERT_TRUE(peer.expect('d'));
  peer.tell('1');
  ASSERT_TRUE(peer.expect('s'));
  OK(cu.stream_wait_event(stream, event, 0));
  EXPECT_EQ(cu.stream_query(stream), CUDA_ERROR_NOT_READY);
  peer.kill_and_wait();
  OK(cu.stream_synchronize(stream));
  OK(cu.event_query(event));
  OK(cu.event_destroy(event));
  OK(cu.stream_destroy(stream));
}

TEST_F(Interprocess, WrongEventsAreErrors) {
  CUevent event = nullptr, opened = nullptr;
  CUipcEventHandle handle{};
  EXPECT_EQ(cu.event_create(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
  OK(cu.event_create(&event, CU_EVENT_DISABLE_TIMING));
  EXPECT_NE(cu.ipc_get_event_handle(&handle, event), CUDA_SUCCESS);
  OK(cu.event_destroy(event));
  EXPECT_EQ(cu.ipc_get_event_handle(&handle, nullptr), CUDA_ERROR_INVALID_HANDLE);
  OK(cu.event_create(&event, kShared));
  EXPECT_EQ(cu.ipc_get_event_handle(nullptr, event), CUDA_ERROR_INVALID_VALUE);
  std::memset(&handle, 0x5A, sizeof handle);
  EXPECT_NE(cu.ipc_open_event_handle(&opened, handle), CUDA_SUCCESS);
  OK(cu.event_destroy(event));
}

TEST_F(Interprocess, WrongMemoryAndHandlesAreErrors) {
  CUipcMemHandle handle{};
  CUdeviceptr a = allocate(1000), none = 0;
  EXPECT_EQ(cu.ipc_get_mem_handle(&handle, 0x1234), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.ipc_get_mem_handle(nullptr, a), CUDA_ERROR_INVALID_VALUE);
  OK(cu.ipc_get_mem_handle(&handle, a));
  EXPECT_NE(cu.ipc_open_mem_handle(&none, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            CUDA_SUCCESS);  // not in the process that made it
  EXPECT_EQ(cu.ipc_open_mem_handle(&none, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.ipc_close_mem_handle(a), CUDA_ERROR_INVALID_VALUE);
  std::memset(&handle, 0x5A, sizeof handle);
  EXPECT_NE(cu.ipc_open_mem_handle(&none, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            CUDA_SUCCESS);
}

}  // namespace
}  // namespace lambent::conformance
