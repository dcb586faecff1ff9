// MIG: instances made through NVML are devices of their own to the processes that are given them.
#include <set>

#include "conformance/own_node.h"

namespace lambent::conformance {
namespace {

class Mig : public testing::Test {
 protected:
  void SetUp() override {
    EMULATOR_ONLY("it would cut up a device that others may use");
    std::string error;
    ASSERT_TRUE(nvml.load(nvml_path(), &error)) << error;
    ASSERT_EQ(nvml.init(), NVML_SUCCESS);
    ASSERT_EQ(nvml.device_get_handle_by_index(0, &device), NVML_SUCCESS);
  }
  void TearDown() override {
    if (device) nvml.shutdown();
  }
  void enable() {
    nvmlReturn_t activation = NVML_ERROR_UNKNOWN;
    ASSERT_EQ(nvml.device_set_mig_mode(device, NVML_DEVICE_MIG_ENABLE, &activation), NVML_SUCCESS);
    EXPECT_EQ(activation, NVML_SUCCESS);
  }
  // A GPU instance with one compute instance of all its slices; its UUID.
  std::string make(unsigned profile_id, unsigned compute_profile_id) {
    nvmlGpuInstance_t gpu = nullptr;
    nvmlComputeInstance_t compute = nullptr;
    EXPECT_EQ(nvml.device_create_gpu_instance(device, profile_id, &gpu), NVML_SUCCESS);
    EXPECT_EQ(nvml.gpu_instance_create_compute_instance(gpu, compute_profile_id, &compute),
              NVML_SUCCESS);
    nvmlDevice_t mig_device = nullptr;
    char uuid[96] = "";
    for (unsigned i = 0; i < 7; i++) {
      if (nvml.device_get_mig_device_handle_by_index(device, i, &mig_device)) continue;
      char text[96] = "";
      EXPECT_EQ(nvml.device_get_uuid(mig_device, text, sizeof text), NVML_SUCCESS);
      if (!seen.insert(text).second) continue;
      std::snprintf(uuid, sizeof uuid, "%s", text);
    }
    return uuid;
  }

  OwnNode node{"a100-80gb", {}};
  Nvml nvml;
  nvmlDevice_t device = nullptr;
  std::set<std::string> seen;
};

TEST_F(Mig, AProcessSeesTheInstanceThatItIsGiven) {
  EXPECT_EQ(OwnNode::ask("node_describe"),
            "1 devices, Emulated NVIDIA A100-SXM4-80GB, 108 multiprocessors, 81152 MiB");
  enable();
  EXPECT_EQ(OwnNode::ask("node_describe"), "");  // no device: cuInit fails
  std::string half = make(9, NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE);
  std::string small = make(19, NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE);
  EXPECT_EQ(half.rfind("MIG-", 0), 0u);
  const char* of_half =
      "1 devices, Emulated NVIDIA A100-SXM4-80GB MIG 3g.40gb, 42 multiprocessors, 40192 MiB";
  EXPECT_EQ(OwnNode::ask("node_describe"), of_half);
  Setting visible("CUDA_VISIBLE_DEVICES", small);
  EXPECT_EQ(OwnNode::ask("node_describe"),
            "1 devices, Emulated NVIDIA A100-SXM4-80GB MIG 1g.10gb, 14 multiprocessors, 9728 MiB");
  Setting other("CUDA_VISIBLE_DEVICES", half + "," + small);
  EXPECT_EQ(OwnNode::ask("node_describe"), of_half);
}

TEST_F(Mig, InstancesDoNotDisturbEachOther) {
  MODELLED_TIME_ONLY();
  enable();
  std::string half = make(9, NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE);
  std::string small = make(19, NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE);
  Peer other;
  {
    Setting visible("CUDA_VISIBLE_DEVICES", half);
    ASSERT_TRUE(other.start("occupy"));
    ASSERT_TRUE(other.expect('r'));
  }
  {
    Setting visible("CUDA_VISIBLE_DEVICES", small);
    EXPECT_EQ(OwnNode::ask("node_time"), "multiprocessors 14 elapsed 10.00 ms");
  }
  nvmlProcessInfo_t infos[4];
  unsigned count = 4;
  ASSERT_EQ(nvml.device_get_compute_running_processes(device, &count, infos), NVML_SUCCESS);
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(infos[0].gpuInstanceId, 1u);
  EXPECT_EQ(infos[0].computeInstanceId, 0u);
  other.kill_and_wait();
}

TEST_F(Mig, ProfilesAndPlacementsAreThoseOfTheDevice) {
  nvmlGpuInstanceProfileInfo_v2_t info{};
  info.version = nvmlGpuInstanceProfileInfo_v2;
  ASSERT_EQ(
      nvml.device_get_gpu_instance_profile_info_v(device, NVML_GPU_INSTANCE_PROFILE_3_SLICE, &info),
      NVML_SUCCESS);
  EXPECT_EQ(info.id, 9u);
  EXPECT_EQ(info.multiprocessorCount, 42u);
  EXPECT_STREQ(info.name, "MIG 3g.40gb");
  unsigned count = 0;
  ASSERT_EQ(nvml.device_get_gpu_instance_possible_placements(device, 9, nullptr, &count),
            NVML_SUCCESS);
  ASSERT_EQ(count, 2u);
  nvmlGpuInstancePlacement_t placements[2];
  ASSERT_EQ(nvml.device_get_gpu_instance_possible_placements(device, 9, placements, &count),
            NVML_SUCCESS);
  EXPECT_EQ(placements[1].start, 4u);
  EXPECT_EQ(placements[1].size, 4u);
  enable();
  ASSERT_EQ(nvml.device_get_gpu_instance_remaining_capacity(device, 19, &count), NVML_SUCCESS);
  EXPECT_EQ(count, 7u);
  make(9, NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE);
  ASSERT_EQ(nvml.device_get_gpu_instance_remaining_capacity(device, 19, &count), NVML_SUCCESS);
  EXPECT_EQ(count, 4u);
}

TEST_F(Mig, WrongOrderAndWrongHandlesAreErrors) {
  nvmlGpuInstance_t gpu = nullptr, none = nullptr;
  nvmlComputeInstance_t compute = nullptr;
  nvmlReturn_t activation;
  EXPECT_EQ(nvml.device_create_gpu_instance(device, 9, &gpu), NVML_ERROR_NOT_SUPPORTED);
  enable();
  EXPECT_EQ(nvml.device_create_gpu_instance(device, 9, nullptr), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(nvml.device_create_gpu_instance(device, 99, &gpu), NVML_ERROR_INVALID_ARGUMENT);
  ASSERT_EQ(nvml.device_create_gpu_instance(device, 0, &gpu), NVML_SUCCESS);
  EXPECT_EQ(nvml.device_create_gpu_instance(device, 19, &none), NVML_ERROR_INSUFFICIENT_RESOURCES);
  ASSERT_EQ(nvml.gpu_instance_create_compute_instance(gpu, NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE,
                                                      &compute),
            NVML_SUCCESS);
  EXPECT_EQ(nvml.gpu_instance_destroy(gpu), NVML_ERROR_IN_USE);
  Peer user;
  ASSERT_TRUE(user.start("hold"));
  ASSERT_TRUE(user.expect('r'));
  EXPECT_EQ(nvml.compute_instance_destroy(compute), NVML_ERROR_IN_USE);
  EXPECT_EQ(nvml.device_set_mig_mode(device, NVML_DEVICE_MIG_DISABLE, &activation),
            NVML_ERROR_IN_USE);
  user.kill_and_wait();
  EXPECT_EQ(nvml.compute_instance_destroy(compute), NVML_SUCCESS);
  EXPECT_EQ(nvml.compute_instance_destroy(compute), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(nvml.gpu_instance_destroy(gpu), NVML_SUCCESS);
  EXPECT_EQ(nvml.gpu_instance_destroy(gpu), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(nvml.gpu_instance_destroy(nullptr), NVML_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace lambent::conformance
