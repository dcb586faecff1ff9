#include "gpu/monitor/near_cpus.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/testing/testing.h"

namespace lambent::monitor {
namespace {

TEST(NearCpus, ASetIsWrittenAsTheKernelDoes) {
  const unsigned long none[2] = {};
  EXPECT_EQ(cpu_list_of(none), "");
  const unsigned long some[2] = {0b1011, 0};
  EXPECT_EQ(cpu_list_of(some), "0-1,3");
  const unsigned long across[2] = {1ul << 63, 0b11};
  EXPECT_EQ(cpu_list_of(across), "63-65");
  const unsigned long all[1] = {~0ul};
  EXPECT_EQ(cpu_list_of(all), "0-63");
}

class Sysfs : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    const std::string folder = root_ / "bus/pci/devices/0000:3b:00.0";
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/" + file) << text;
  }
  std::string near() const { return near_cpus_by_sysfs(root_.path(), "00000000:3B:00.0"); }

  const TemporaryFolder root_;
};

TEST_F(Sysfs, TheListOfTheDevicesNodeIsRead) {
  write("numa_node", "1\n");
  write("local_cpulist", "16-31,48-63\n");
  EXPECT_EQ(near(), "16-31,48-63");
}

TEST_F(Sysfs, WithoutANodeOrADeviceNobodyKnows) {
  EXPECT_EQ(near(), "");
  write("local_cpulist", "0-63\n");
  EXPECT_EQ(near(), "");
  write("numa_node", "-1\n");
  EXPECT_EQ(near(), "");
  EXPECT_EQ(near_cpus_by_sysfs(root_.path(), "no bus id"), "");
  EXPECT_EQ(near_cpus_by_sysfs(root_.path(), "0000:../../x"), "");
}

}  // namespace
}  // namespace lambent::monitor
