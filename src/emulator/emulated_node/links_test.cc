#include "emulator/emulated_node/links.h"

#include <gtest/gtest.h>

#include <string>

namespace lambent::emulated_node {
namespace {

constexpr double kOneByteEachNs = 1e9;

TEST(Links, TransfersOfOneEngineFollowEachOther) {
  Links links;
  initialise(links);
  EXPECT_EQ(occupy(links.host[0], nullptr, 100, kOneByteEachNs, 50, 1), 150);
  EXPECT_EQ(occupy(links.host[0], nullptr, 100, kOneByteEachNs, 60, 1), 250);
  EXPECT_EQ(occupy(links.host[1], nullptr, 100, kOneByteEachNs, 60, 1), 160);
  EXPECT_EQ(links.host[0].bytes, 200u);
}

TEST(Links, ATransferBetweenDevicesTakesAnEngineOfEach) {
  Links a, b, c;
  initialise(a);
  initialise(b);
  initialise(c);
  EXPECT_EQ(occupy(a.peer[0], &b.peer[1], 100, kOneByteEachNs, 0, 1), 100);
  EXPECT_EQ(occupy(c.peer[0], &b.peer[1], 100, kOneByteEachNs, 0, 2), 200);
  EXPECT_EQ(occupy(b.peer[0], &a.peer[1], 100, kOneByteEachNs, 0, 1), 100);
}

TEST(Links, TheDeadGiveTheirLastPlaceBack) {
  Links links;
  initialise(links);
  occupy(links.host[0], nullptr, 100, kOneByteEachNs, 0, 1);
  occupy(links.host[0], nullptr, 1000, kOneByteEachNs, 0, 2);
  give_up(links, 2, 50);
  EXPECT_EQ(links.host[0].free_ns, 100);
  give_up(links, 2, 50);
  EXPECT_EQ(links.host[0].free_ns, 100);
}

TEST(Links, TheTopologySaysWhichWayTheyGo) {
  NodeSpec spec{};
  spec.device_count = 3;
  spec.topology.nvlink_peers[0] = 0b010;
  spec.topology.nvlink_peers[1] = 0b001;
  EXPECT_EQ(way_between(spec, 0, 1), Way::kNvlink);
  EXPECT_EQ(way_between(spec, 1, 0), Way::kNvlink);
  EXPECT_EQ(way_between(spec, 0, 2), Way::kStaged);
  EXPECT_EQ(way_between(spec, 1, 1), Way::kStaged);
  EXPECT_EQ(way_between(spec, 0, 7), Way::kStaged);
  spec.topology.pcie_peers = true;
  EXPECT_EQ(way_between(spec, 0, 2), Way::kPcie);
  spec.device_count = kMaxDevices;
  spec.topology.nvlink_peers[0] |= uint64_t{1} << (kMaxDevices - 1);
  EXPECT_EQ(way_between(spec, 0, kMaxDevices - 1), Way::kNvlink);
  EXPECT_EQ(way_between(spec, 0, kMaxDevices - 2), Way::kPcie);
}

}  // namespace
}  // namespace lambent::emulated_node
