// Several processes on one device: they see each other's use, share its time, and leave nothing
// behind however they end.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>

#include <chrono>
#include <random>
#include <thread>

#include "conformance/fixture.h"

namespace lambent::conformance {
namespace {

using Processes = WithKernels;

class WithNvml : public Processes {
 protected:
  void SetUp() override {
    Processes::SetUp();
    std::string error;
    if (!nvml.load(nvml_path(), &error)) GTEST_SKIP() << error;
    ASSERT_EQ(nvml.init(), NVML_SUCCESS);
    ASSERT_EQ(nvml.device_get_handle_by_index(0, &device), NVML_SUCCESS);
  }
  void TearDown() override {
    if (device) nvml.shutdown();
    Processes::TearDown();
  }
  unsigned long long used_bytes() {
    nvmlMemory_t memory{};
    EXPECT_EQ(nvml.device_get_memory_info(device, &memory), NVML_SUCCESS);
    return memory.used;
  }
  unsigned process_count() {
    nvmlProcessInfo_t infos[64];
    unsigned count = 64;
    EXPECT_EQ(nvml.device_get_compute_running_processes(device, &count, infos), NVML_SUCCESS);
    return count;
  }

  Nvml nvml;
  nvmlDevice_t device = nullptr;
};

TEST_F(WithNvml, ADeviceIsFoundByItsBus) {
  nvmlPciInfo_t info{};
  ASSERT_EQ(nvml.device_get_pci_info(device, &info), NVML_SUCCESS);
  std::string whole = info.busId;
  std::transform(whole.begin(), whole.end(), whole.begin(), tolower);
  const size_t domain = whole.find(':') + 1;
  for (const std::string& id : {whole, whole.substr(domain), whole.substr(0, whole.find('.'))}) {
    nvmlDevice_t found = nullptr;
    EXPECT_EQ(nvml.device_get_handle_by_pci_bus_id(id.c_str(), &found), NVML_SUCCESS) << id;
    EXPECT_EQ(found, device) << id;
  }
  nvmlDevice_t none = nullptr;
  EXPECT_EQ(nvml.device_get_handle_by_pci_bus_id("0000:fe:1f.0", &none), NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(nvml.device_get_handle_by_pci_bus_id("device", &none), NVML_ERROR_INVALID_ARGUMENT);
}

TEST_F(Processes, OnesMemoryIsMissingForTheOthersUntilItEnds) {
  size_t before = free_bytes();
  Peer peer;
  ASSERT_TRUE(peer.start("hold"));
  ASSERT_TRUE(peer.expect('r'));
  EXPECT_LE(free_bytes(), before - (128 << 20));
  peer.tell('q');
  EXPECT_EQ(peer.wait_for_exit(), 0);
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(Processes, AKilledOneGivesItsMemoryBack) {
  size_t before = free_bytes();
  Peer peer;
  ASSERT_TRUE(peer.start("hold"));
  ASSERT_TRUE(peer.expect('r'));
  EXPECT_LE(free_bytes(), before - (128 << 20));
  peer.kill_and_wait();
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(Processes, AForkedChildHasNoDriverAndKeepsNothingOfAKilledParent) {
  size_t before = free_bytes();
  Peer peer;
  ASSERT_TRUE(peer.start("hold_and_fork"));
  ASSERT_TRUE(peer.expect('c'));
  EXPECT_LE(free_bytes(), before - (128 << 20));
  kill(peer.pid, SIGKILL);
  waitpid(peer.pid, nullptr, 0);
  EXPECT_EQ(free_bytes(), before);  // its child still lives
  close(peer.to);
  close(peer.from);
}

TEST_F(Processes, TwoShareTheTimeOfTheDevice) {
  MODELLED_TIME_ONLY();
  EMULATOR_ONLY("kernels of stated duration and exact shares are the emulator's");
  CUfunction busy = function("busy");
  uint64_t ns = 40'000'000;
  CUstream stream;
  OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  auto once = [&] {
    return milliseconds(stream, [&] { OK(launch(busy, 1000, 256, stream, {&ns})); });
  };
  float alone = once();
  Peer peer;
  ASSERT_TRUE(peer.start("occupy"));
  ASSERT_TRUE(peer.expect('r'));
  float shared = once();
  peer.kill_and_wait();
  free_bytes();  // looks who is still alive
  float after = once();
  EXPECT_NEAR(alone, 40, 0.01);
  EXPECT_NEAR(shared / alone, 2.0, 0.1);
  EXPECT_NEAR(after / alone, 1.0, 0.01);
}

TEST_F(Processes, AKernelWithoutEndDoesNotKeepItsProcessAlive) {
  BODIES_ONLY();
  EMULATOR_ONLY("a GPU would be occupied by it");
  Peer peer;
  ASSERT_TRUE(peer.start("endless"));
  ASSERT_TRUE(peer.expect('r'));
  peer.tell('w');  // it waits for its kernel now
  peer.kill_and_wait();
  CUdeviceptr counter = allocate(4);
  OK(cu.memset_d32(counter, 0, 1));
  OK(launch(function("count"), 5, 32, nullptr, {&counter}));
  OK(cu.ctx_synchronize());
}

TEST_F(WithNvml, AgreesWithTheDriverAboutMemoryAndProcesses) {
  size_t free = 0, total = 0;
  OK(cu.mem_get_info(&free, &total));
  unsigned long long before = used_bytes();
  if (driver().emulated) {
    EXPECT_EQ(before, total - free);
  }
  EXPECT_GE(process_count(), 1u);
  CUdeviceptr address = allocate(100 << 20);
  EXPECT_GE(used_bytes(), before + (100 << 20));
  OK(cu.mem_free(address));
  nvmlMemory_v2_t second{};
  second.version = nvmlMemory_v2;
  ASSERT_EQ(nvml.device_get_memory_info_v2(device, &second), NVML_SUCCESS);
  EXPECT_EQ(second.total, second.free + second.used + second.reserved);
}

TEST_F(WithNvml, KnowsTheDeviceByIndexUuidAndName) {
  char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE], name[NVML_DEVICE_NAME_V2_BUFFER_SIZE], same[96];
  nvmlDevice_t found = nullptr;
  unsigned count = 0;
  ASSERT_EQ(nvml.device_get_count(&count), NVML_SUCCESS);
  EXPECT_GE(count, 1u);
  ASSERT_EQ(nvml.device_get_uuid(device, uuid, sizeof uuid), NVML_SUCCESS);
  ASSERT_EQ(nvml.device_get_handle_by_uuid(uuid, &found), NVML_SUCCESS);
  EXPECT_EQ(found, device);
  ASSERT_EQ(nvml.device_get_name(device, name, sizeof name), NVML_SUCCESS);
  OK(cu.device_get_name(same, sizeof same, 0));
  EXPECT_STREQ(name, same);
  EXPECT_EQ(nvml.device_get_name(device, name, 3), NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(nvml.device_get_handle_by_uuid("GPU-none", &found), NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(nvml.device_get_handle_by_index(99, &found), NVML_ERROR_INVALID_ARGUMENT);
}

TEST_F(WithNvml, UtilisationFollowsTheKernels) {
  EMULATOR_ONLY("a kernel of stated duration is the emulator's");
  uint64_t ns = 300'000'000;
  OK(launch(function("busy"), 1000, 256, nullptr, {&ns}));
  OK(cu.ctx_synchronize());
  nvmlUtilization_t utilization{};
  ASSERT_EQ(nvml.device_get_utilization_rates(device, &utilization), NVML_SUCCESS);
  EXPECT_GE(utilization.gpu, 20u);
}

TEST_F(WithNvml, NothingIsLeftOfProcessesKilledAtRandom) {
  unsigned long long before = used_bytes();
  unsigned seed = 20261121;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 12; round++) {
    Peer peers[3];
    for (Peer& peer : peers) {
      ASSERT_TRUE(peer.start("churn"));
      ASSERT_TRUE(peer.expect('r'));
    }
    for (Peer& peer : peers) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      peer.kill_and_wait();
    }
    CUdeviceptr address = allocate(1 << 20);  // nothing hangs
    OK(cu.mem_free(address));
  }
  EXPECT_EQ(used_bytes(), before);
  EXPECT_EQ(process_count(), 1u);
  CUfunction busy = function("busy");
  uint64_t ns = 10'000'000;
  float alone = milliseconds(nullptr, [&] { OK(launch(busy, 1000, 256, nullptr, {&ns})); });
  if (driver().model_mode) {
    EXPECT_NEAR(alone, 10, 0.01);
  }
}

}  // namespace
}  // namespace lambent::conformance
