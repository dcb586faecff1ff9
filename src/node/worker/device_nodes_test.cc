#include "node/worker/device_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>

#include "core/base/testing/testing.h"
#include "core/domain/slice.h"
#include "node/worker/executor_plan.h"
#include "node/worker/sandbox_plan.h"

namespace lambent::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

protocol::DeviceInventory whole(uint32_t index, uint32_t minor) {
  return {.index = index, .uuid = "GPU-" + std::to_string(index), .minor = minor};
}

protocol::DeviceInventory instance(uint32_t gpu, uint32_t place, uint32_t minor) {
  return {.index = mig_instance(gpu, place).value - 1,
          .uuid = "MIG-" + std::to_string(place),
          .profile = "1g.10gb",
          .minor = minor,
          .gpu_instance = 9,
          .compute_instance = 0};
}

// A machine's /dev and /proc/driver/nvidia, with nodes like /dev/null in it.
class DeviceNodesTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia0", "nvidia1",
          "nvidia5", "nvidia-caps/nvidia-cap1", "nvidia-caps/nvidia-cap2",
          "nvidia-caps/nvidia-cap66", "nvidia-caps/nvidia-cap67"}) {
      if (!make_node(name)) GTEST_SKIP() << "no device can be made here";
    }
    write_capability("gpu1/mig/gi9", "DeviceFileMinor: 66\nDeviceFileMode: 292\n");
    write_capability("gpu1/mig/gi9/ci0", "DeviceFileMinor: 67\nDeviceFileMode: 292\n");
  }
  bool make_node(const std::string& name) {
    const std::filesystem::path path = root_.path() + "/dev/" + name;
    std::filesystem::create_directories(path.parent_path());
    return mknod(path.c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0;
  }
  void write_capability(const std::string& capability, const std::string& text) {
    const std::filesystem::path folder =
        root_.path() + "/proc/driver/nvidia/capabilities/" + capability;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "access") << text;
  }
  void remove(const std::string& path) { std::filesystem::remove(root_.path() + path); }
  Result<DeviceNodes> find(const std::vector<protocol::DeviceInventory>& devices) {
    return find_device_nodes(root_.path(), devices);
  }
  static std::vector<std::string> seen(const std::vector<sandbox::DeviceNode>& nodes) {
    std::vector<std::string> paths;
    for (const sandbox::DeviceNode& node : nodes) paths.push_back(node.sandbox_path);
    return paths;
  }

  TemporaryFolder root_;
};

TEST_F(DeviceNodesTest, ASandboxSeesTheNodeOfItsOwnDeviceByTheMinorNumber) {
  const auto nodes = find({whole(0, 5), whole(1, 0)});
  ASSERT_TRUE(nodes.ok()) << nodes.error().message;
  EXPECT_THAT(
      seen(nodes->of(whole_device(0))),
      ElementsAre("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia5"));
  EXPECT_EQ(nodes->of(whole_device(0)).back().host_path, root_.path() + "/dev/nvidia5");
  EXPECT_THAT(
      seen(nodes->of(whole_device(1))),
      ElementsAre("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia0"));
  EXPECT_THAT(nodes->of(whole_device(2)), IsEmpty()) << "of a device that is not known";
}

TEST_F(DeviceNodesTest, AnInstanceSeesWhatGivesAccessToItAndNothingToConfigure) {
  const auto nodes = find({instance(1, 2, 1)});
  ASSERT_TRUE(nodes.ok()) << nodes.error().message;
  EXPECT_THAT(
      seen(nodes->of(mig_instance(1, 2))),
      ElementsAre("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia1",
                  "/dev/nvidia-caps/nvidia-cap66", "/dev/nvidia-caps/nvidia-cap67"));
}

TEST_F(DeviceNodesTest, WhatCannotBeToldApartIsRefusedWithAWayOut) {
  const auto error_of = [this](const protocol::DeviceInventory& device) {
    const auto nodes = find({device});
    EXPECT_FALSE(nodes.ok());
    if (nodes.ok()) return std::string();
    EXPECT_EQ(nodes.error().code, ErrorCode::kFailedPrecondition);
    return nodes.error().message;
  };
  EXPECT_THAT(error_of(whole(0, 4)), HasSubstr("nvidia-modprobe -c 4"));
  EXPECT_THAT(error_of({.index = 0}), HasSubstr("there are 3 files /dev/nvidiaN"));
  auto untold = instance(1, 2, 1);
  untold.gpu_instance.reset();
  EXPECT_THAT(error_of(untold), HasSubstr("which instance"));
  auto other = instance(1, 2, 1);
  other.compute_instance = 3;
  EXPECT_THAT(error_of(other), HasSubstr("nv_cap_enable_devfs=1"));
  remove("/dev/nvidia-caps/nvidia-cap67");
  EXPECT_THAT(error_of(instance(1, 2, 1)), HasSubstr("nvidia-modprobe -f"));
}

TEST_F(DeviceNodesTest, AnOldDriverOfASingleDeviceNeedsNoMinorNumber) {
  remove("/dev/nvidia1");
  remove("/dev/nvidia5");
  const auto nodes = find({{.index = 0}});
  ASSERT_TRUE(nodes.ok()) << nodes.error().message;
  EXPECT_EQ(seen(nodes->of(whole_device(0))).back(), "/dev/nvidia0");
}

TEST_F(DeviceNodesTest, AMachineWithoutNvidiasNodesShowsNone) {
  remove("/dev/nvidiactl");
  const auto nodes = find({whole(0, 4)});
  ASSERT_TRUE(nodes.ok());
  EXPECT_EQ(*nodes, DeviceNodes());
}

TEST_F(DeviceNodesTest, PlansShowTheNodesOfTheDevicesThatTheirProcessesUse) {
  const auto nodes = find({whole(0, 5), whole(1, 0)});
  ASSERT_TRUE(nodes.ok()) << nodes.error().message;
  GpuDriver gpu;
  gpu.folder = "/d";
  gpu.nodes = *nodes;
  gpu.visible = {{whole_device(0), "GPU-0"}, {whole_device(1), "GPU-1"}};
  FunctionSpec spec;
  spec.gpu.memory = Bytes::mib(64);
  SandboxSetting setting;
  setting.shim_folder = "/s";
  setting.gpu = gpu;
  const auto function =
      plan_sandbox(setting, spec, {SandboxId(1), whole_device(1), "/code", "/run/ledger"});
  EXPECT_EQ(function.devices, nodes->of(whole_device(1)));
  EXPECT_TRUE(sandbox::validate(function).ok());
  spec.gpu.memory = Bytes(0);
  EXPECT_THAT(plan_sandbox(setting, spec, {SandboxId(1), whole_device(1), "/code", ""}).devices,
              IsEmpty());

  ExecutorSetting executors;
  executors.program = "/p/lambent-executor";
  executors.gpu = gpu;
  const ExecutorRequest request{SandboxId(2), whole_device(0), false, "/run/executor"};
  EXPECT_THAT(seen(plan_executor(executors, request).devices),
              ElementsAre("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
                          "/dev/nvidia5", "/dev/nvidia0"))
      << "it imports objects from the other device";
  executors.share_objects = false;
  EXPECT_EQ(plan_executor(executors, request).devices, nodes->of(whole_device(0)));
}

TEST(CapabilityMinor, IsReadFromItsLineAlone) {
  EXPECT_EQ(capability_minor("DeviceFileMinor: 12\nDeviceFileMode: 292\n"), 12u);
  EXPECT_EQ(capability_minor("DeviceFileMode: 292\nDeviceFileMinor: 4294967295"), 4294967295u);
  for (const char* text : {"", "DeviceFileMinor:", "DeviceFileMinor: \n", "DeviceFileMinor: -1\n",
                           "DeviceFileMinor: 4294967296\n", "DeviceFileMinor: 12x\n",
                           "NoDeviceFileMinor: 12\n", "DeviceFileMode: 292\n"}) {
    EXPECT_EQ(capability_minor(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace lambent::worker
