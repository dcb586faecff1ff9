#include "gpu/monitor/served_devices.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/base/packet.h"
#include "core/base/testing/testing.h"

namespace lambent::monitor {
namespace {

class ServedDevices : public testing::Test {
 protected:
  void SetUp() override { std::ofstream(file) << "node"; }

  TemporaryFolder folder;
  const std::string file = folder.path() + "/node";
};

TEST_F(ServedDevices, AreNotCutAnewWhileAnybodyServesThem) {
  auto one = mark_served(file);
  auto two = mark_served(file);
  ASSERT_TRUE(one.ok() && one->valid());
  ASSERT_TRUE(two.ok() && two->valid()) << "several may serve them";
  one->reset();
  const auto refused = claim_to_cut(file);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(refused.error().message.find(file + " is locked"), std::string::npos);
  two->reset();
  EXPECT_TRUE(claim_to_cut(file).ok());
}

TEST_F(ServedDevices, AreNotServedWhileTheyAreCutAnew) {
  auto claim = claim_to_cut(file);
  ASSERT_TRUE(claim.ok());
  const auto refused = mark_served(file);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(refused.error().message.find(file + " is locked"), std::string::npos);
  claim->reset();
  EXPECT_TRUE(mark_served(file).ok());
}

TEST_F(ServedDevices, BehindASocketAreMarkedOnAFileBesideIt) {
  const std::string socket = folder.path() + "/socket";
  const auto listener = listen_packets(socket, 0666);
  ASSERT_TRUE(listener.ok());
  const auto served = mark_served(socket);
  ASSERT_TRUE(served.ok() && served->valid());
  EXPECT_FALSE(claim_to_cut(socket).ok());
}

TEST_F(ServedDevices, CannotBeMarkedWhereThereIsNoFile) {
  for (const auto& mark : {mark_served, claim_to_cut}) {
    const auto made = mark(folder.path() + "/none");
    ASSERT_TRUE(made.ok());
    EXPECT_FALSE(made->valid());
  }
}

}  // namespace
}  // namespace lambent::monitor
