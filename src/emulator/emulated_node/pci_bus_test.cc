#include "emulator/emulated_node/pci_bus.h"

#include <gtest/gtest.h>

#include "emulator/emulated_node/node.h"

namespace lambent::emulated_node {
namespace {

TEST(PciBus, EachFormOfAnIdNamesItsDevice) {
  const std::string id = Node::pci_bus_id(1);
  for (const char* written : {id.c_str(), "00000000:02:00.0", "0:2:0", "02:00.0"}) {
    EXPECT_EQ(device_at(written), 1) << written;
  }
  EXPECT_EQ(device_at("0000:0a:00.0"), 9);
  EXPECT_EQ(device_at(Node::pci_bus_id(kMaxDevices - 1).c_str()), kMaxDevices - 1);
}

TEST(PciBus, AnInstanceIsWhereItsDeviceIs) {
  EXPECT_EQ(device_at(Node::pci_bus_id(partition_of(1, 2)).c_str()), 1);
}

TEST(PciBus, WhatNoDeviceHasAndWhatIsNoIdAreToldApart) {
  for (const char* none :
       {"0001:02:00.0", "0000:02:01.0", "02:00.1", "0000:00:00.0", "0000:ff:00.0"}) {
    EXPECT_EQ(device_at(none), kMaxDevices) << none;
  }
  EXPECT_EQ(device_at("GPU-2"), std::nullopt);
  EXPECT_EQ(device_at(""), std::nullopt);
}

}  // namespace
}  // namespace lambent::emulated_node
