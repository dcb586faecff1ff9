#include "emulator/emulated_node/mig.h"

#include <gtest/gtest.h>

namespace lambent::emulated_node {
namespace {

class Mig : public testing::Test {
 protected:
  Mig() { state.enabled = 1; }
  MigResult create(int profile, int start = -1) {
    return create_gpu_instance(family, state, profile, start, &slot);
  }

  const MigFamily& family = *find_mig_family("a100-80gb");
  MigState state{};
  int slot = -1;
};

TEST_F(Mig, InstancesArePlacedFromAboveAndNumberedByPlace) {
  ASSERT_EQ(create(19), MigResult::kDone);
  EXPECT_EQ(state.gpu[slot].start, 6);
  EXPECT_EQ(state.gpu[slot].id, 13u);
  ASSERT_EQ(create(14), MigResult::kDone);
  EXPECT_EQ(state.gpu[slot].start, 4);
  EXPECT_EQ(state.gpu[slot].id, 5u);
  ASSERT_EQ(create(5), MigResult::kDone);
  EXPECT_EQ(state.gpu[slot].start, 0);
  EXPECT_EQ(create(19), MigResult::kNoRoom);
}

TEST_F(Mig, WrongRequestsChangeNothing) {
  EXPECT_EQ(create(77), MigResult::kInvalid);
  EXPECT_EQ(create(9, 2), MigResult::kInvalid);
  EXPECT_EQ(create(9, 99), MigResult::kInvalid);
  EXPECT_EQ(destroy_gpu_instance(state, 0), MigResult::kNotFound);
  EXPECT_EQ(destroy_gpu_instance(state, -1), MigResult::kNotFound);
  EXPECT_EQ(create_compute_instance(family, state, 0, 1, -1, &slot), MigResult::kNotFound);
  state.enabled = 0;
  EXPECT_EQ(create(19), MigResult::kNotSupported);
  EXPECT_TRUE(layout_of(family, state).empty());
}

TEST_F(Mig, AGpuInstanceIsSharedByComputeInstances) {
  ASSERT_EQ(create(9), MigResult::kDone);
  int gpu = slot, first = -1, second = -1, third = -1;
  ASSERT_EQ(create_compute_instance(family, state, gpu, 1, -1, &first), MigResult::kDone);
  ASSERT_EQ(create_compute_instance(family, state, gpu, 2, -1, &second), MigResult::kDone);
  EXPECT_EQ(create_compute_instance(family, state, gpu, 1, -1, &third), MigResult::kNoRoom);
  EXPECT_EQ(create_compute_instance(family, state, gpu, 4, -1, &third), MigResult::kNotSupported);
  EXPECT_EQ(create_compute_instance(family, state, gpu, 5, -1, &third), MigResult::kInvalid);
  EXPECT_EQ(state.compute[second].start, 1);
  EXPECT_EQ(state.compute[second].id, 1u);
  EXPECT_EQ(destroy_gpu_instance(state, gpu), MigResult::kInUse);
  EXPECT_EQ(destroy_compute_instance(state, first), MigResult::kDone);
  EXPECT_EQ(destroy_compute_instance(state, second), MigResult::kDone);
  EXPECT_EQ(destroy_gpu_instance(state, gpu), MigResult::kDone);
}

TEST_F(Mig, AnInstanceLooksLikeASmallerDevice) {
  DeviceSpec whole{};
  std::snprintf(whole.name, sizeof whole.name, "Some GPU");
  whole.multiprocessors = 108;
  whole.memory_bytes_per_s = 2000;
  ASSERT_EQ(create(9), MigResult::kDone);
  int compute = -1;
  ASSERT_EQ(create_compute_instance(family, state, slot, 3, -1, &compute), MigResult::kDone);
  DeviceSpec spec = instance_spec(whole, family, state, compute);
  EXPECT_STREQ(spec.name, "Some GPU MIG 3g.40gb");
  EXPECT_EQ(spec.multiprocessors, 42);
  EXPECT_EQ(spec.memory_bytes, uint64_t{40192} << 20);
  EXPECT_EQ(spec.memory_bytes_per_s, 1000);
  EXPECT_EQ(spec.copy_engines, 3);
  EXPECT_EQ(instance_name(*find_profile(family, 9), 1), "1c.3g.40gb");
}

TEST_F(Mig, PartitionsAreDevicesFirstAndThenTheirSlots) {
  for (int device = 0; device < kMaxDevices; device++) {
    EXPECT_EQ(device_of_partition(device), device);
    EXPECT_EQ(slot_of_partition(device), -1);
    for (int at = 0; at < kMaxInstances; at++) {
      int partition = partition_of(device, at);
      EXPECT_LT(partition, kMaxPartitions);
      EXPECT_EQ(device_of_partition(partition), device);
      EXPECT_EQ(slot_of_partition(partition), at);
    }
  }
}

}  // namespace
}  // namespace lambent::emulated_node
