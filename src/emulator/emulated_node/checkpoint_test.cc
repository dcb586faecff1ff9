#include "emulator/emulated_node/checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_node {
namespace {

class Checkpoint : public testing::Test {
 protected:
  Checkpoint() : path(testing::TempDir() + "/checkpoint_test_" + std::to_string(getpid())) {
    unlink(path.c_str());
    node = Node::open(path, "tiny", &error);
    unlink(path.c_str());
    row = node->claim_row();
    Node::Guard guard(*node);
    guard->rows[row].bytes[0] = 1000;
    guard->rows[row].contexts[0] = 2;
  }
  CheckpointResult lock() { return lock_process(*Node::Guard(*node), row); }
  CheckpointResult unlock() { return unlock_process(*Node::Guard(*node), row); }
  CheckpointResult checkpoint() { return checkpoint_process(*Node::Guard(*node), row, &bytes); }
  CheckpointResult restore() {
    Node::Guard guard(*node);
    return restore_process(guard, row, &bytes);
  }

  std::string path, error;
  std::unique_ptr<Node> node;
  uint32_t row = kNobody;
  uint64_t bytes = 0;
};

TEST_F(Checkpoint, BytesLeaveTheDeviceAndComeBack) {
  ASSERT_EQ(lock(), CheckpointResult::kDone);
  ASSERT_EQ(checkpoint(), CheckpointResult::kDone);
  EXPECT_EQ(bytes, 1000u);
  EXPECT_EQ(Node::Guard(*node).used_bytes(0), 0u);
  EXPECT_EQ(Node::Guard(*node).contexts_on(0), 0u);
  ASSERT_EQ(restore(), CheckpointResult::kDone);
  EXPECT_EQ(Node::Guard(*node).used_bytes(0), 1000u);
  EXPECT_EQ(Node::Guard(*node).contexts_on(0), 2u);
  ASSERT_EQ(unlock(), CheckpointResult::kDone);
}

TEST_F(Checkpoint, EveryOtherTransitionIsIllegal) {
  constexpr auto kIllegal = CheckpointResult::kIllegalState;
  EXPECT_EQ(unlock(), kIllegal);
  EXPECT_EQ(checkpoint(), kIllegal);
  EXPECT_EQ(restore(), kIllegal);
  ASSERT_EQ(lock(), CheckpointResult::kDone);
  EXPECT_EQ(lock(), kIllegal);
  EXPECT_EQ(restore(), kIllegal);
  ASSERT_EQ(checkpoint(), CheckpointResult::kDone);
  EXPECT_EQ(lock(), kIllegal);
  EXPECT_EQ(unlock(), kIllegal);
  EXPECT_EQ(checkpoint(), kIllegal);
}

TEST_F(Checkpoint, WithoutRoomItStaysCheckpointed) {
  ASSERT_EQ(lock(), CheckpointResult::kDone);
  ASSERT_EQ(checkpoint(), CheckpointResult::kDone);
  auto other = Node::open(path, "tiny", &error);
  Node::Guard(*node)->rows[row].bytes[0] = node->device().memory_bytes;
  EXPECT_EQ(restore(), CheckpointResult::kNoMemory);
  Node::Guard(*node)->rows[row].bytes[0] = 0;
  EXPECT_EQ(restore(), CheckpointResult::kDone);
  unlink(path.c_str());
}

TEST_F(Checkpoint, ManagedAndSharedMemoryCannotBeCheckpointed) {
  ASSERT_EQ(lock(), CheckpointResult::kDone);
  Node::Guard(*node)->rows[row].managed_allocations = 1;
  EXPECT_EQ(checkpoint(), CheckpointResult::kNotSupported);
  Node::Guard(*node)->rows[row].managed_allocations = 0;
  share(Node::Guard(*node)->shared, 0, 4096, row);
  EXPECT_EQ(checkpoint(), CheckpointResult::kNotSupported);
}

TEST_F(Checkpoint, ADeviceThatIsLostMeanwhileFailsTheProcess) {
  ASSERT_EQ(lock(), CheckpointResult::kDone);
  ASSERT_EQ(checkpoint(), CheckpointResult::kDone);
  Node::Guard(*node)->devices[0].health.lost = 1;
  EXPECT_EQ(restore(), CheckpointResult::kLost);
  EXPECT_EQ(Node::Guard(*node)->rows[row].checkpoint.state, uint32_t{CU_PROCESS_STATE_FAILED});
}

TEST_F(Checkpoint, AProcessIsFoundByItsId) {
  Node::Guard guard(*node);
  EXPECT_EQ(find_process(*guard, getpid(), own_pid_namespace()), row);
  EXPECT_EQ(find_process(*guard, -7, own_pid_namespace()), kNobody);
  EXPECT_EQ(find_process(*guard, getpid(), own_pid_namespace() + 1), kNobody)
      << "elsewhere the same number is another process";
}

}  // namespace
}  // namespace lambent::emulated_node
