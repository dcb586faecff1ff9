// What is found of NVIDIA's GPUs on machines that are made here, with stand-ins for the libraries
// and for the program that asks them.
#include "bin/nvidia_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace lambent::bin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class NvidiaMachine : public testing::Test {
 protected:
  NvidiaMachine() {
    std::string name = testing::TempDir() + "nvidia-XXXXXX";
    root = mkdtemp(name.data());
    write("dev/nvidiactl", "");
    write("dev/nvidia-uvm", "");
  }
  ~NvidiaMachine() override { std::filesystem::remove_all(root); }

  void write(const std::string& path, const std::string& text, mode_t mode = 0644) const {
    const std::filesystem::path file = root + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    chmod(file.c_str(), mode);
  }
  void write_driver() const {
    write("dev/nvidia1", "");
    write("dev/nvidia0", "");
    write("sys/module/nvidia/version", "580.95\n");
    write("lib/libcuda.so.1", "");
    write("lib/libnvidia-ml.so.1", "");
  }
  // A stand-in for lambent-device, which asks the driver.
  std::string describer(const std::string& does) const {
    write("describer",
          "#!/bin/sh\n[ \"$1\" = --cuda-version ] && echo 12.4 && exit\n"
          "[ \"$1\" = --describe-driver ] || exit 99\n" +
              does + "\n",
          0755);
    return root + "/describer";
  }
  NvidiaFacts find(const std::string& does) const {
    return find_nvidia_facts(
        {.library_folder = root + "/lib", .describer = describer(does), .root = root});
  }

  std::string root;
};

TEST_F(NvidiaMachine, HasTheGpusThatTheDriverTellsOf) {
  write_driver();
  const NvidiaFacts facts =
      find("echo \"GPU-1 discrete 5 $LD_LIBRARY_PATH\"; echo GPU-2 discrete 5");
  EXPECT_THAT(facts.device_files, ElementsAre("/dev/nvidia0", "/dev/nvidia1"));
  EXPECT_EQ(facts.module_version, "580.95");
  EXPECT_EQ(facts.library, root + "/lib/libcuda.so.1");
  EXPECT_TRUE(facts.has_nvml);
  ASSERT_TRUE(facts.devices.ok());
  EXPECT_EQ(*facts.devices, 2u);
  EXPECT_EQ(facts.cuda, (CudaVersion{12, 4}));
  EXPECT_EQ(judge(facts).state, NvidiaState::kUsable);
}

TEST_F(NvidiaMachine, TheDriverIsAskedWithTheLibrariesOfItsFolder) {
  write_driver();
  const NvidiaFacts facts = find("[ \"$LD_LIBRARY_PATH\" = \"" + root + "/lib\" ] && echo GPU-1");
  ASSERT_TRUE(facts.devices.ok());
  EXPECT_EQ(*facts.devices, 1u);
}

TEST_F(NvidiaMachine, SaysWhatTheDriverSaysThatDoesNotStart) {
  write_driver();
  const NvidiaFacts facts = find("echo 'lambent-device: INTERNAL: cuInit: 803' >&2; exit 13");
  ASSERT_FALSE(facts.devices.ok());
  EXPECT_EQ(facts.devices.error().message, "cuInit: 803");
  EXPECT_EQ(facts.cuda, (CudaVersion{12, 4})) << "which it says without a device";
  EXPECT_EQ(judge(facts).state, NvidiaState::kBroken);
}

// A real driver reserves addresses for all memory that it could map.
TEST_F(NvidiaMachine, TheDriverMayReserveTerabytesOfAddresses) {
  write_driver();
  const NvidiaFacts facts =
      find("[ $(ulimit -v) = unlimited ] || [ $(ulimit -v) -gt 100000000000 ] && echo GPU-1");
  ASSERT_TRUE(facts.devices.ok());
  EXPECT_EQ(*facts.devices, 1u);
}

TEST_F(NvidiaMachine, WithoutALibraryNothingIsAsked) {
  write("dev/nvidia0", "");
  const NvidiaFacts facts = find("echo GPU-1");
  EXPECT_THAT(facts.library, IsEmpty());
  EXPECT_FALSE(facts.devices.ok());
}

}  // namespace
}  // namespace lambent::bin
