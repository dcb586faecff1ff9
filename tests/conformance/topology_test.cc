// How NVML says that the devices of a node are joined, and which clients of MPS there are.
#include "conformance/own_node.h"

namespace lambent::conformance {
namespace {

class Topology : public testing::Test {
 protected:
  void SetUp() override {
    EMULATOR_ONLY("the devices of a machine are joined as they are");
    std::string error;
    ASSERT_TRUE(nvml.load(nvml_path(), &error)) << error;
  }
  // Of a node of its own, while that lives.
  nvmlDevice_t device(unsigned index) {
    nvmlDevice_t handle = nullptr;
    EXPECT_EQ(nvml.device_get_handle_by_index(index, &handle), NVML_SUCCESS);
    return handle;
  }
  nvmlGpuP2PStatus_t status(unsigned one, unsigned other, nvmlGpuP2PCapsIndex_t index) {
    nvmlGpuP2PStatus_t found = NVML_P2P_STATUS_UNKNOWN;
    EXPECT_EQ(nvml.device_get_p2p_status(device(one), device(other), index, &found), NVML_SUCCESS);
    return found;
  }

  Nvml nvml;
};

TEST_F(Topology, EachPairOfJoinedDevicesHasALink) {
  OwnNode node("tiny-x4", {{"nvlink = ", "nvlink = [[0, 1], [0, 3]] #"}});
  ASSERT_EQ(nvml.init(), NVML_SUCCESS);
  nvmlEnableState_t active = NVML_FEATURE_DISABLED;
  ASSERT_EQ(nvml.device_get_nvlink_state(device(0), 1, &active), NVML_SUCCESS);
  EXPECT_EQ(active, NVML_FEATURE_ENABLED);
  nvmlPciInfo_t pci{}, expected{};
  ASSERT_EQ(nvml.device_get_nvlink_remote_pci_info(device(0), 1, &pci), NVML_SUCCESS);
  ASSERT_EQ(nvml.device_get_pci_info(device(3), &expected), NVML_SUCCESS);
  EXPECT_STREQ(pci.busId, expected.busId);
  ASSERT_EQ(nvml.device_get_nvlink_state(device(0), 2, &active), NVML_SUCCESS);
  EXPECT_EQ(active, NVML_FEATURE_DISABLED);
  EXPECT_EQ(nvml.device_get_nvlink_remote_pci_info(device(0), 2, &pci), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(nvml.device_get_nvlink_state(device(0), 99, &active), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(nvml.device_get_nvlink_state(device(2), 0, &active), NVML_ERROR_NOT_SUPPORTED);
  unsigned version = 0, able = 0;
  ASSERT_EQ(nvml.device_get_nvlink_version(device(0), 0, &version), NVML_SUCCESS);
  EXPECT_EQ(version, 6u);  // 4.0, of compute capability 9
  ASSERT_EQ(nvml.device_get_nvlink_capability(device(0), 0, NVML_NVLINK_CAP_P2P_SUPPORTED, &able),
            NVML_SUCCESS);
  EXPECT_EQ(able, 1u);
  EXPECT_EQ(status(0, 1, NVML_P2P_CAPS_INDEX_NVLINK), NVML_P2P_STATUS_OK);
  EXPECT_EQ(status(1, 3, NVML_P2P_CAPS_INDEX_NVLINK), NVML_P2P_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(status(0, 1, NVML_P2P_CAPS_INDEX_ATOMICS), NVML_P2P_STATUS_NOT_SUPPORTED);
  nvml.shutdown();
}

TEST_F(Topology, PeersOverPcieMeetAtTheHostBridge) {
  for (bool peers : {true, false}) {
    OwnNode node("tiny-x4",
                 {{"nvlink = ", "nvlink = [[0, 1]] #"},
                  {"pcie_peers = ", peers ? "pcie_peers = true #" : "pcie_peers = false #"}});
    ASSERT_EQ(nvml.init(), NVML_SUCCESS);
    nvmlGpuTopologyLevel_t level = NVML_TOPOLOGY_NODE;
    ASSERT_EQ(nvml.device_get_topology_common_ancestor(device(1), device(2), &level), NVML_SUCCESS);
    EXPECT_EQ(level, peers ? NVML_TOPOLOGY_HOSTBRIDGE : NVML_TOPOLOGY_SYSTEM);
    EXPECT_EQ(status(1, 2, NVML_P2P_CAPS_INDEX_READ),
              peers ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(status(1, 2, NVML_P2P_CAPS_INDEX_PCI),
              peers ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED);
    unsigned count = 0;
    nvmlDevice_t nearest[4] = {};
    ASSERT_EQ(nvml.device_get_topology_nearest_gpus(device(0), level, &count, nullptr),
              NVML_SUCCESS);
    EXPECT_EQ(count, 3u);
    count = 2;
    ASSERT_EQ(nvml.device_get_topology_nearest_gpus(device(0), level, &count, nearest),
              NVML_SUCCESS);
    EXPECT_EQ(count, 2u);
    EXPECT_EQ(nearest[1], device(2));
    nvml.shutdown();
  }
}

TEST_F(Topology, ClientsOfMpsAreToldApartAndProcessesHaveNames) {
  for (bool mps : {true, false}) {
    OwnNode node("tiny", {{"[node]", mps ? "[node]\nmps = true" : "[node]\nmps = false"}});
    ASSERT_EQ(nvml.init(), NVML_SUCCESS);
    Peer peer;
    ASSERT_TRUE(peer.start("hold"));
    ASSERT_TRUE(peer.expect('r'));
    nvmlProcessInfo_t found[4];
    unsigned count = 4;
    ASSERT_EQ(nvml.device_get_compute_running_processes(device(0), &count, found), NVML_SUCCESS);
    ASSERT_EQ(count, 1u);
    EXPECT_GE(found[0].usedGpuMemory, 128u << 20);
    count = 4;
    ASSERT_EQ(nvml.device_get_mps_compute_running_processes(device(0), &count, found),
              NVML_SUCCESS);
    EXPECT_EQ(count, mps ? 1u : 0u);
    char name[64] = "";
    ASSERT_EQ(nvml.system_get_process_name(static_cast<unsigned>(peer.pid), name, sizeof name),
              NVML_SUCCESS);
    EXPECT_EQ(std::string(name).rfind("conformance", 0), 0u) << name;
    EXPECT_EQ(nvml.system_get_process_name(1, name, sizeof name), NVML_ERROR_NOT_FOUND);
    peer.kill_and_wait();
    nvml.shutdown();
  }
}

}  // namespace
}  // namespace lambent::conformance
