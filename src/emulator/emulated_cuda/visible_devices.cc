#include "emulator/emulated_cuda/visible_devices.h"

#include <algorithm>
#include <sstream>

namespace lambent::emulated_cuda {

using namespace emulated_node;

namespace {

bool is_mig(int partition) { return slot_of_partition(partition) >= 0; }

// "MIG-GPU-<uuid>/<GPU instance>/<compute instance>", the form before MIG devices had UUIDs.
std::string path_of(Node& node, const NodeState& state, int partition) {
  const MigState& mig = state.devices[device_of_partition(partition)].mig;
  const ComputeInstance& compute = mig.compute[slot_of_partition(partition)];
  char raw[16];
  return "MIG-" + node.device_uuid(device_of_partition(partition), raw) + "/" +
         std::to_string(mig.gpu[compute.gpu_slot].id) + "/" + std::to_string(compute.id);
}

// What one entry means, or -1. A device in MIG mode stands for its first instance.
int meant(Node& node, Node::Guard& guard, const std::string& entry) {
  std::vector<int> partitions = guard.partitions();
  int found = -1;
  for (int partition : partitions) {
    char raw[16];
    std::string uuid = node.device_uuid(partition, raw);
    bool by_uuid = is_mig(partition) ? uuid == entry || path_of(node, *guard, partition) == entry
                                     : entry.size() > 4 && uuid.starts_with(entry);
    if (by_uuid || (!is_mig(partition) && entry == std::to_string(partition))) found = partition;
  }
  if (found >= 0 && guard->devices[device_of_partition(found)].health.lost) return -1;
  if (found < 0 || is_mig(found) || !guard->devices[found].mig.enabled) return found;
  for (int partition : partitions) {
    if (is_mig(partition) && device_of_partition(partition) == found) return partition;
  }
  return -1;
}

}  // namespace

std::vector<int> visible_partitions(const Settings& settings, Node& node) {
  Node::Guard guard(node);
  std::vector<int> chosen;
  if (!settings.visible_devices_set) {
    std::vector<int> partitions = guard.partitions();
    std::erase_if(partitions, [&](int partition) {
      return guard->devices[device_of_partition(partition)].health.lost != 0;
    });
    for (int partition : partitions) {
      if (!is_mig(partition) && !guard->devices[partition].mig.enabled) chosen.push_back(partition);
    }
    auto first = std::find_if(partitions.begin(), partitions.end(), is_mig);
    if (chosen.empty() && first != partitions.end()) chosen.push_back(*first);
    return chosen;
  }
  std::stringstream list(settings.visible_devices);
  for (std::string entry; std::getline(list, entry, ',');) {
    entry.erase(0, entry.find_first_not_of(" \t"));
    entry.erase(entry.find_last_not_of(" \t") + 1);
    int found = meant(node, guard, entry);
    if (found < 0 || std::count(chosen.begin(), chosen.end(), found)) break;
    if (is_mig(found)) return {found};
    chosen.push_back(found);
  }
  return chosen;
}

}  // namespace lambent::emulated_cuda
