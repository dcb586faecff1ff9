#include "node/worker/slice_choice.h"

#include <set>

namespace lambent::worker {
namespace {

using protocol::DeviceInventory;

bool is_instance(const DeviceInventory& device) { return !device.profile.empty(); }

Slice slice_of(const DeviceInventory& device) {
  Slice slice;
  slice.id = device_id_of(device);
  slice.gpu = gpu_of(slice.id);
  slice.uuid = device.uuid;
  slice.shape.name = is_instance(device) ? device.profile : device.name;
  slice.shape.multiprocessors = device.multiprocessors;
  slice.shape.memory = device.memory_total;
  return slice;
}

// A UUID starts with "GPU-" or "MIG-"; so few letters by themselves name nothing.
constexpr size_t kLeastOfUuid = 8;

Result<std::set<uint32_t>> chosen(const std::vector<DeviceInventory>& devices,
                                  const std::string& list) {
  std::set<uint32_t> indices;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    const std::string name = list.substr(at, end - at);
    at = end + 1;
    const DeviceInventory* found = nullptr;
    for (const DeviceInventory& device : devices) {
      if (!is_called(device, name)) continue;
      if (found != nullptr) {
        return Error{ErrorCode::kInvalidArgument,
                     "'" + name + "' is the beginning of several devices' UUIDs"};
      }
      found = &device;
    }
    if (found == nullptr) {
      std::string known;
      for (const DeviceInventory& device : devices) {
        known += (known.empty() ? "" : ", ") + place_name(device_id_of(device));
      }
      return Error{ErrorCode::kInvalidArgument,
                   "there is no device '" + name + "' for pipelines; there are " + known};
    }
    indices.insert(found->index);
  }
  return indices;
}

}  // namespace

bool is_called(const DeviceInventory& device, const std::string& name) {
  return place_name(device_id_of(device)) == name ||
         (name.size() >= kLeastOfUuid && device.uuid.starts_with(name));
}

Result<DeviceShares> share_devices(const std::vector<DeviceInventory>& devices,
                                   const std::string& choice) {
  std::set<uint32_t> indices;
  if (choice == "all" || choice == "mig") {
    for (const DeviceInventory& device : devices) {
      if (choice == "all" || is_instance(device)) indices.insert(device.index);
    }
  } else if (choice != "none") {
    ASSIGN_OR_RETURN(indices, chosen(devices, choice));
  }
  DeviceShares shares;
  for (const DeviceInventory& device : devices) {
    if (!indices.contains(device.index)) {
      shares.dispatched.push_back(device);
    } else if (device.memory_total > Bytes(0)) {
      shares.slices.push_back(slice_of(device));
    }
  }
  return shares;
}

std::string visible_name(const DeviceInventory& device) {
  return is_instance(device) ? device.uuid : std::to_string(device.index);
}

}  // namespace lambent::worker
