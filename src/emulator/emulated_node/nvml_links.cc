// The emulated NVML's view of how the devices of the node are joined. A device has one NVLink for
// each device that it is joined to; switches do not show.
#include <algorithm>
#include <vector>

#include "emulator/emulated_node/nvml_handles.h"

using namespace lambent::emulated_node;

namespace {

// The devices at the other ends of a device's links, by number of the link.
std::vector<int> joined_to(const NodeSpec& spec, int device) {
  std::vector<int> peers;
  for (int peer = 0; peer < spec.device_count; peer++) {
    if (way_between(spec, device, peer) == Way::kNvlink) peers.push_back(peer);
  }
  return peers;
}

// Finds the device, and the other end of one of its links: -1 where nothing is plugged in.
// NOT_SUPPORTED for a device without any.
nvmlReturn_t find_link(nvmlDevice_t handle, unsigned link, std::shared_ptr<Node>* node, int* device,
                       int* peer) {
  if (nvmlReturn_t result = find_device(handle, node, device)) return result;
  if (link >= NVML_NVLINK_MAX_LINKS) return NVML_ERROR_INVALID_ARGUMENT;
  const std::vector<int> peers = joined_to((*node)->spec(), *device);
  if (peers.empty()) return NVML_ERROR_NOT_SUPPORTED;
  *peer = link < peers.size() ? peers[link] : -1;
  return NVML_SUCCESS;
}

nvmlReturn_t find_pair(nvmlDevice_t one, nvmlDevice_t other, std::shared_ptr<Node>* node,
                       int* device, int* peer) {
  if (nvmlReturn_t result = find_device(one, node, device)) return result;
  return find_device(other, node, peer);
}

// All devices of the node are of one board if NVLink joins them or they are peers over PCIe; else
// they meet in the system.
nvmlGpuTopologyLevel_t level_between(const NodeSpec& spec, int device, int peer) {
  if (device == peer) return NVML_TOPOLOGY_INTERNAL;
  return spec.topology.pcie_peers ? NVML_TOPOLOGY_HOSTBRIDGE : NVML_TOPOLOGY_SYSTEM;
}

// NVML's number for the version that came with the architecture.
unsigned link_version(const DeviceSpec& spec) {
  switch (spec.compute_major) {
    case 6:
      return 1;  // 1.0
    case 7:
      return 2;  // 2.0
    case 8:
      return 4;  // 3.0
    case 9:
      return 6;  // 4.0
    default:
      return 7;  // 5.0
  }
}

}  // namespace

#pragma GCC visibility push(default)

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t handle, unsigned int link,
                                      nvmlEnableState_t* active) {
  std::shared_ptr<Node> node;
  int device, peer;
  if (nvmlReturn_t result = find_link(handle, link, &node, &device, &peer)) return result;
  if (!active) return NVML_ERROR_INVALID_ARGUMENT;
  const bool lost = peer >= 0 && Node::Guard(*node)->devices[peer].health.lost;
  *active = peer >= 0 && !lost ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t handle, unsigned int link,
                                        unsigned int* version) {
  std::shared_ptr<Node> node;
  int device, peer;
  if (nvmlReturn_t result = find_link(handle, link, &node, &device, &peer)) return result;
  if (!version) return NVML_ERROR_INVALID_ARGUMENT;
  *version = link_version(node->device());
  return NVML_SUCCESS;
}

// Only peer access: which atomic operations cross a link is not modelled.
nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t handle, unsigned int link,
                                           nvmlNvLinkCapability_t capability,
                                           unsigned int* result) {
  std::shared_ptr<Node> node;
  int device, peer;
  if (nvmlReturn_t failed = find_link(handle, link, &node, &device, &peer)) return failed;
  if (!result || capability > NVML_NVLINK_CAP_VALID) return NVML_ERROR_INVALID_ARGUMENT;
  const bool has =
      capability == NVML_NVLINK_CAP_P2P_SUPPORTED || capability == NVML_NVLINK_CAP_VALID;
  *result = peer >= 0 && has;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t handle, unsigned int link,
                                                 nvmlPciInfo_t* info) {
  std::shared_ptr<Node> node;
  int device, peer;
  if (nvmlReturn_t result = find_link(handle, link, &node, &device, &peer)) return result;
  if (!info) return NVML_ERROR_INVALID_ARGUMENT;
  if (peer < 0) return NVML_ERROR_NOT_SUPPORTED;  // nothing is plugged in
  return nvmlDeviceGetPciInfo_v3(handle_of(peer), info);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t handle, unsigned int link,
                                                 nvmlIntNvLinkDeviceType_t* type) {
  std::shared_ptr<Node> node;
  int device, peer;
  if (nvmlReturn_t result = find_link(handle, link, &node, &device, &peer)) return result;
  if (!type) return NVML_ERROR_INVALID_ARGUMENT;
  if (peer < 0) return NVML_ERROR_NOT_SUPPORTED;
  *type = NVML_NVLINK_DEVICE_TYPE_GPU;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other,
                                                 nvmlGpuTopologyLevel_t* level) {
  std::shared_ptr<Node> node;
  int device, peer;
  if (nvmlReturn_t result = find_pair(one, other, &node, &device, &peer)) return result;
  if (!level) return NVML_ERROR_INVALID_ARGUMENT;
  *level = level_between(node->spec(), device, peer);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t handle, nvmlGpuTopologyLevel_t level,
                                              unsigned int* count, nvmlDevice_t* devices) {
  std::shared_ptr<Node> node;
  int device;
  if (nvmlReturn_t result = find_device(handle, &node, &device)) return result;
  if (!count || (*count > 0 && !devices)) return NVML_ERROR_INVALID_ARGUMENT;
  const unsigned room = *count;
  unsigned found = 0;
  for (int peer = 0; peer < node->spec().device_count; peer++) {
    if (peer == device || level_between(node->spec(), device, peer) != level) continue;
    if (found < room) devices[found] = handle_of(peer);
    found++;
  }
  *count = room == 0 ? found : std::min(found, room);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other,
                                    nvmlGpuP2PCapsIndex_t index, nvmlGpuP2PStatus_t* status) {
  std::shared_ptr<Node> node;
  int device, peer;
  if (nvmlReturn_t result = find_pair(one, other, &node, &device, &peer)) return result;
  if (!status || index >= NVML_P2P_CAPS_INDEX_UNKNOWN) return NVML_ERROR_INVALID_ARGUMENT;
  const Way way = way_between(node->spec(), device, peer);
  bool able = way != Way::kStaged;
  if (index == NVML_P2P_CAPS_INDEX_NVLINK) able = way == Way::kNvlink;
  if (index == NVML_P2P_CAPS_INDEX_PCI) able = way == Way::kPcie;
  if (index == NVML_P2P_CAPS_INDEX_ATOMICS) able = false;  // not modelled
  *status = able ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
  return NVML_SUCCESS;
}

#pragma GCC visibility pop
