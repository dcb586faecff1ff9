#include "emulator/emulated_cuda/visible_devices.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace lambent::emulated_cuda {
namespace {

using namespace emulated_node;

class VisibleDevices : public testing::Test {
 protected:
  VisibleDevices() {
    path = testing::TempDir() + "/visible_test_" + std::to_string(getpid());
    unlink(path.c_str());
    NodeSpec spec;
    EXPECT_TRUE(read_node_spec("a100-80gb", &spec, &error)) << error;
    spec.device_count = 3;
    node = Node::create(path, spec, &error);
    unlink(path.c_str());
  }
  void cut(int device) {
    Node::Guard guard(*node);
    int slot;
    EXPECT_EQ(guard.set_mig_mode(device, true), MigResult::kDone);
    EXPECT_EQ(guard.add_mig_device(device, 9, -1, &slot), MigResult::kDone);
    EXPECT_EQ(guard.add_mig_device(device, 14, -1, &slot), MigResult::kDone);
  }
  std::vector<int> seen(const char* variable) {
    Settings settings;
    settings.visible_devices_set = variable != nullptr;
    settings.visible_devices = variable ? variable : "";
    return visible_partitions(settings, *node);
  }
  std::string uuid(int partition) {
    char raw[16];
    return node->device_uuid(partition, raw);
  }

  std::string path, error;
  std::unique_ptr<Node> node;
};

using List = std::vector<int>;

TEST_F(VisibleDevices, AreThoseOfTheListInItsOrder) {
  EXPECT_EQ(seen(nullptr), (List{0, 1, 2}));
  EXPECT_EQ(seen("2,0"), (List{2, 0}));
  EXPECT_EQ(seen(" 1 , 2 "), (List{1, 2}));
  EXPECT_EQ(seen((uuid(2) + "," + uuid(0)).c_str()), (List{2, 0}));
  EXPECT_EQ(seen(""), List{});
  EXPECT_EQ(seen("-1"), List{});
  EXPECT_EQ(seen("0,-1,1"), List{0});
  EXPECT_EQ(seen("0,9,1"), List{0});
  EXPECT_EQ(seen("0,0,1"), List{0});
  EXPECT_EQ(seen("GPU-nothing"), List{});
  EXPECT_EQ(seen("01"), List{});
}

TEST_F(VisibleDevices, OneInMigModeIsSeenThroughOneInstance) {
  cut(0);
  int half = partition_of(0, 0), quarter = partition_of(0, 1);
  EXPECT_EQ(seen(nullptr), (List{1, 2}));
  EXPECT_EQ(seen("0"), List{half});
  EXPECT_EQ(seen("1,2"), (List{1, 2}));
  EXPECT_EQ(seen(uuid(quarter).c_str()), List{quarter});
  EXPECT_EQ(seen((uuid(quarter) + "," + uuid(half)).c_str()), List{quarter});
  EXPECT_EQ(seen(("1," + uuid(half)).c_str()), List{half});
  EXPECT_EQ(seen(("MIG-" + uuid(0) + "/1/0").c_str()), List{half});
  EXPECT_EQ(seen(("MIG-" + uuid(0) + "/4/0").c_str()), List{quarter});
  EXPECT_EQ(seen(("MIG-" + uuid(0) + "/9/0").c_str()), List{});
  EXPECT_EQ(seen("MIG-"), List{});
}

TEST_F(VisibleDevices, WithEveryDeviceInMigModeTheFirstInstanceIsSeen) {
  for (int device = 0; device < 3; device++) cut(device);
  EXPECT_EQ(seen(nullptr), List{partition_of(0, 0)});
  EXPECT_EQ(seen("2"), List{partition_of(2, 0)});
}

TEST_F(VisibleDevices, AnEmptyDeviceInMigModeIsNotSeen) {
  Node::Guard(*node).set_mig_mode(1, true);
  EXPECT_EQ(seen("1"), List{});
  EXPECT_EQ(seen("0,1,2"), List{0});
  EXPECT_EQ(seen(nullptr), (List{0, 2}));
}

}  // namespace
}  // namespace lambent::emulated_cuda
