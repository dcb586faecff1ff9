#include "emulator/emulated_cuda/sm_resources.h"

#include <gtest/gtest.h>

namespace lambent::emulated_cuda {
namespace {

using emulated_node::MultiprocessorSet;

SmResource device(int multiprocessors, int compute_major) {
  SmResource resource;
  resource.compute_major = compute_major;
  resource.members = MultiprocessorSet::first(multiprocessors);
  return resource;
}

TEST(SmResources, TheHopperPartHasSixteenGroupsOfEightAndFourLeftOver) {
  Split result = split(device(132, 9), split_rule(9, 0), 1, 1000, 1);
  ASSERT_EQ(result.groups.size(), 16u);
  EXPECT_EQ(result.remaining.members.count(), 4);
  MultiprocessorSet together{};
  for (const SmResource& group : result.groups) {
    EXPECT_EQ(group.members.count(), 8);
    EXPECT_FALSE(together.intersects(group.members));
    together = together | group.members;
  }
}

TEST(SmResources, GroupsAreRoundedUpAsTheArchitectureNeeds) {
  EXPECT_EQ(group_size(split_rule(9, 0), 0), 8);
  EXPECT_EQ(group_size(split_rule(9, 0), 9), 16);
  EXPECT_EQ(group_size(split_rule(8, 0), 1), 4);
  EXPECT_EQ(group_size(split_rule(8, 0), 5), 6);
  EXPECT_EQ(group_size(split_rule(7, 0), 1), 2);
  EXPECT_EQ(group_size(split_rule(9, CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING), 3), 4);
  EXPECT_EQ(split(device(108, 8), split_rule(8, 0), 27, 1000, 1).groups.size(), 3u);
}

TEST(SmResources, FewerGroupsThanFitLeaveMoreOver) {
  Split result = split(device(132, 9), split_rule(9, 0), 16, 2, 1);
  EXPECT_EQ(result.groups.size(), 2u);
  EXPECT_EQ(result.remaining.members.count(), 100);
}

TEST(SmResources, APackedResourceKnowsWhetherItWasTamperedWith) {
  SmResource before = device(64, 9), after;
  before.partition = 3;
  before.split = 77;
  CUresult result;
  CUdevResource packed = pack(before);
  EXPECT_EQ(packed.sm.smCount, 64u);
  EXPECT_EQ(packed.sm.minSmPartitionSize, 8u);
  ASSERT_TRUE(unpack(packed, &after, &result));
  EXPECT_EQ(after.members, before.members);
  EXPECT_EQ(after.partition, 3);
  EXPECT_EQ(after.split, 77u);
  packed.sm.smCount = 100;
  EXPECT_FALSE(unpack(packed, &after, &result));
  EXPECT_EQ(result, CUDA_ERROR_INVALID_VALUE);
  packed = {};
  EXPECT_FALSE(unpack(packed, &after, &result));
  EXPECT_EQ(result, CUDA_ERROR_INVALID_RESOURCE_TYPE);
  packed.type = CU_DEV_RESOURCE_TYPE_SM;
  EXPECT_FALSE(unpack(packed, &after, &result));
  EXPECT_EQ(result, CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace lambent::emulated_cuda
