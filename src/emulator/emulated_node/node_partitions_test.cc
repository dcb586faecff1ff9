// MIG on a node: what its instances have for themselves and what they share.
#include <gtest/gtest.h>
#include <unistd.h>

#include "emulator/emulated_node/node.h"

namespace lambent::emulated_node {
namespace {

class MigNode : public testing::Test {
 protected:
  MigNode() : path(testing::TempDir() + "/mig_node_test_" + std::to_string(getpid())) {
    unlink(path.c_str());
    node = Node::open(path, "a100-80gb-mig", &error);
  }
  ~MigNode() override { unlink(path.c_str()); }

  std::string path, error;
  std::unique_ptr<Node> node;
};

TEST_F(MigNode, IsCutAsItsFileSays) {
  ASSERT_NE(node, nullptr) << error;
  Node::Guard guard(*node);
  std::vector<int> partitions = guard.partitions();
  ASSERT_EQ(partitions,
            (std::vector<int>{0, partition_of(0, 0), partition_of(0, 1), partition_of(0, 2)}));
  EXPECT_EQ(guard.spec_of(partitions[1]).multiprocessors, 42);
  EXPECT_EQ(guard.spec_of(partitions[2]).multiprocessors, 28);
  EXPECT_EQ(guard.model(partitions[1]).multiprocessors, 42);
  EXPECT_EQ(&node->spec_of(partitions[1]), &node->spec_of(partitions[1]));
  char a[16], b[16];
  EXPECT_TRUE(node->device_uuid(partitions[1], a).starts_with("MIG-"));
  EXPECT_NE(node->device_uuid(partitions[1], a), node->device_uuid(partitions[2], b));
}

TEST_F(MigNode, MemoryIsSharedWithinAGpuInstanceAndSummedUpForTheDevice) {
  ASSERT_NE(node, nullptr) << error;
  uint32_t row = node->claim_row();
  Node::Guard guard(*node);
  int slot = -1;
  ASSERT_EQ(guard.remove_compute_instance(0, 0), MigResult::kDone);
  ASSERT_EQ(guard.add_compute_instance(0, 0, 1, -1, &slot), MigResult::kDone);
  int first = partition_of(0, slot);
  ASSERT_EQ(guard.add_compute_instance(0, 0, 2, -1, &slot), MigResult::kDone);
  int second = partition_of(0, slot);
  guard->rows[row].bytes[first] = 1000;
  guard->rows[row].bytes[partition_of(0, 1)] = 500;
  EXPECT_EQ(guard.used_bytes(first), 1000u);
  EXPECT_EQ(guard.used_bytes(second), 1000u);
  EXPECT_EQ(guard.used_bytes(partition_of(0, 1)), 500u);
  EXPECT_EQ(guard.used_bytes(0), 1500u);
}

TEST_F(MigNode, WhatIsInUseStays) {
  ASSERT_NE(node, nullptr) << error;
  uint32_t row = node->claim_row();
  Node::Guard guard(*node);
  guard->rows[row].contexts[partition_of(0, 1)] = 1;
  EXPECT_EQ(guard.remove_compute_instance(0, 1), MigResult::kInUse);
  EXPECT_EQ(guard.set_mig_mode(0, false), MigResult::kInUse);
  EXPECT_EQ(guard.remove_compute_instance(0, 0), MigResult::kDone);
  guard->rows[row].contexts[partition_of(0, 1)] = 0;
  EXPECT_EQ(guard.set_mig_mode(0, false), MigResult::kDone);
  EXPECT_EQ(guard.partitions(), std::vector<int>{0});
}

TEST_F(MigNode, ADeviceWithoutMigRefusesIt) {
  std::string plain = path + ".plain";
  auto tiny = Node::open(plain, "tiny", &error);
  unlink(plain.c_str());
  ASSERT_NE(tiny, nullptr) << error;
  Node::Guard guard(*tiny);
  int slot;
  EXPECT_EQ(guard.set_mig_mode(0, true), MigResult::kNotSupported);
  EXPECT_EQ(guard.add_mig_device(0, 19, -1, &slot), MigResult::kNotSupported);
}

}  // namespace
}  // namespace lambent::emulated_node
