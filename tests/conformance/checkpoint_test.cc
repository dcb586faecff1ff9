// Process checkpoint: another process of the machine is locked, taken off the device, brought back
// and let go.
#include <poll.h>
#include <unistd.h>

#include "conformance/fixture.h"

namespace lambent::conformance {
namespace {

class Checkpoints : public WithContext {
 protected:
  void SetUp() override {
    WithContext::SetUp();
    CUprocessState state;
    if (cu.checkpoint_process_get_state(getpid(), &state) == CUDA_ERROR_NOT_SUPPORTED) {
      GTEST_SKIP() << "no checkpoints here";
    }
  }
  CUprocessState state_of(int pid) {
    CUprocessState state = CU_PROCESS_STATE_FAILED;
    EXPECT_EQ(cu.checkpoint_process_get_state(pid, &state), CUDA_SUCCESS);
    return state;
  }
  static bool says_something(const Peer& peer) {
    pollfd wait{peer.from, POLLIN, 0};
    return poll(&wait, 1, 0) == 1;
  }
};

TEST_F(Checkpoints, AProcessLeavesTheDeviceAndComesBack) {
  size_t before = free_bytes();
  Peer peer;
  ASSERT_TRUE(peer.start("checkpoint"));
  ASSERT_TRUE(peer.expect('r'));
  size_t with_peer = free_bytes();
  EXPECT_LE(with_peer, before - (64 << 20));
  EXPECT_EQ(state_of(peer.pid), CU_PROCESS_STATE_RUNNING);
  OK(cu.checkpoint_process_lock(peer.pid, nullptr));
  EXPECT_EQ(state_of(peer.pid), CU_PROCESS_STATE_LOCKED);
  peer.tell('g');  // it calls the driver now
  OK(cu.checkpoint_process_checkpoint(peer.pid, nullptr));
  EXPECT_EQ(state_of(peer.pid), CU_PROCESS_STATE_CHECKPOINTED);
  EXPECT_EQ(free_bytes(), before);
  EXPECT_FALSE(says_something(peer));
  OK(cu.checkpoint_process_restore(peer.pid, nullptr));
  EXPECT_EQ(free_bytes(), with_peer);
  EXPECT_FALSE(says_something(peer));
  OK(cu.checkpoint_process_unlock(peer.pid, nullptr));
  EXPECT_TRUE(peer.expect('7'));  // the contents are still there
  peer.tell('q');
  EXPECT_EQ(peer.wait_for_exit(), 0);
}

TEST_F(Checkpoints, StepsInTheWrongOrderAreIllegal) {
  Peer peer;
  int thread = 0;
  ASSERT_TRUE(peer.start("hold"));
  ASSERT_TRUE(peer.expect('r'));
  EXPECT_EQ(cu.checkpoint_process_checkpoint(peer.pid, nullptr), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(cu.checkpoint_process_restore(peer.pid, nullptr), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(cu.checkpoint_process_unlock(peer.pid, nullptr), CUDA_ERROR_ILLEGAL_STATE);
  OK(cu.checkpoint_process_get_restore_thread_id(peer.pid, &thread));
  EXPECT_GT(thread, 0);
  OK(cu.checkpoint_process_lock(peer.pid, nullptr));
  EXPECT_EQ(cu.checkpoint_process_lock(peer.pid, nullptr), CUDA_ERROR_ILLEGAL_STATE);
  OK(cu.checkpoint_process_unlock(peer.pid, nullptr));
  CUcheckpointLockArgs wrong{};
  wrong.reserved0 = 1;
  EXPECT_EQ(cu.checkpoint_process_lock(peer.pid, &wrong), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.checkpoint_process_lock(-1, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.checkpoint_process_get_state(peer.pid, nullptr), CUDA_ERROR_INVALID_VALUE);
  peer.kill_and_wait();
  CUprocessState state;
  EXPECT_EQ(cu.checkpoint_process_get_state(peer.pid, &state), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Checkpoints, ALockThatTimesOutLeavesTheProcessRunning) {
  Peer peer;
  ASSERT_TRUE(peer.start("occupy"));  // for two seconds
  ASSERT_TRUE(peer.expect('r'));
  CUcheckpointLockArgs arguments{};
  arguments.timeoutMs = 5;
  EXPECT_EQ(cu.checkpoint_process_lock(peer.pid, &arguments), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(state_of(peer.pid), CU_PROCESS_STATE_RUNNING);
  peer.kill_and_wait();
}

TEST_F(Checkpoints, AKilledProcessLeavesNothingBehind) {
  size_t before = free_bytes();
  Peer peer;
  ASSERT_TRUE(peer.start("hold"));
  ASSERT_TRUE(peer.expect('r'));
  OK(cu.checkpoint_process_lock(peer.pid, nullptr));
  OK(cu.checkpoint_process_checkpoint(peer.pid, nullptr));
  peer.kill_and_wait();
  EXPECT_EQ(free_bytes(), before);
}

}  // namespace

int play_checkpoint() {
  Driver& cu = driver();
  CUcontext context;
  CUdeviceptr address;
  char byte = 'r', value = 0;
  if (cu.ctx_create_v2(&context, 0, 0) || cu.mem_alloc(&address, 64 << 20)) return 4;
  if (cu.memset_d8(address, '7', 1)) return 4;
  if (write(1, &byte, 1) != 1 || read(0, &byte, 1) != 1) return 4;
  if (cu.memcpy_d_to_h(&value, address, 1)) return 4;
  if (write(1, &value, 1) != 1 || read(0, &byte, 1) != 1) return 4;
  return 0;
}

}  // namespace lambent::conformance
