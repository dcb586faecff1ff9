#include "node/worker/slice_choice.h"

#include <gtest/gtest.h>

namespace lambent::worker {
namespace {

using protocol::DeviceInventory;

// A whole device, and another one that is cut in two.
std::vector<DeviceInventory> three_devices() {
  return {{0, "GPU-aaaaaaaa-1", "Whole", Bytes::gib(80), "", 0},
          {mig_instance(1, 0).value - 1, "MIG-bbbbbbbb-1", "Cut MIG 3g.40gb", Bytes::gib(40),
           "3g.40gb", 42},
          {mig_instance(1, 1).value - 1, "MIG-bbbbbbbb-2", "Cut MIG 1g.10gb", Bytes::gib(10),
           "1g.10gb", 14}};
}

std::vector<std::string> names_of(const std::vector<Slice>& slices) {
  std::vector<std::string> names;
  for (const Slice& slice : slices) names.push_back(place_name(slice.id));
  return names;
}

TEST(SliceChoice, GivesPipelinesNothingUnlessTold) {
  const auto shares = share_devices(three_devices(), "none");
  ASSERT_TRUE(shares.ok());
  EXPECT_EQ(shares->dispatched, three_devices());
  EXPECT_TRUE(shares->slices.empty());
}

TEST(SliceChoice, TakesAllOrInstancesOrSome) {
  const auto all = share_devices(three_devices(), "all");
  ASSERT_TRUE(all.ok());
  EXPECT_TRUE(all->dispatched.empty());
  EXPECT_EQ(all->slices[0].shape.name, "Whole") << "a whole device is a shape of its own";
  EXPECT_EQ(all->slices[2].shape, (SliceShape{"1g.10gb", 14, Bytes::gib(10)}));

  const auto mig = share_devices(three_devices(), "mig");
  ASSERT_TRUE(mig.ok());
  EXPECT_EQ(names_of(mig->slices), (std::vector<std::string>{"1:0", "1:1"}));

  const auto some = share_devices(three_devices(), "MIG-bbbbbbbb-2,0");
  ASSERT_TRUE(some.ok());
  EXPECT_EQ(names_of(some->slices), (std::vector<std::string>{"0", "1:1"}));
  ASSERT_EQ(some->dispatched.size(), 1u);
  EXPECT_EQ(some->dispatched[0].profile, "3g.40gb");
}

TEST(SliceChoice, SaysWhatItDoesNotKnow) {
  const auto unknown = share_devices(three_devices(), "1:2");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(unknown.error().message.find("there are 0, 1:0, 1:1"), std::string::npos);
  EXPECT_FALSE(share_devices(three_devices(), "MIG-bbbbbbbb").ok()) << "it names two";
  EXPECT_FALSE(share_devices(three_devices(), "MIG-").ok());
  EXPECT_FALSE(share_devices(three_devices(), "").ok());
}

TEST(SliceChoice, ShowsInstancesToProgramsByUuid) {
  EXPECT_EQ(visible_name(three_devices()[0]), "0");
  EXPECT_EQ(visible_name(three_devices()[1]), "MIG-bbbbbbbb-1");
}

}  // namespace
}  // namespace lambent::worker
