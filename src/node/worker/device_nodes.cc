#include "node/worker/device_nodes.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>

#include "core/base/fd.h"
#include "core/domain/slice.h"
#include "node/worker/slice_choice.h"

namespace lambent::worker {
namespace {

constexpr size_t kMostCapabilityText = 4096;
constexpr std::string_view kMinorLine = "DeviceFileMinor:";

bool is_device(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_character_file(path, error);
}

Error not_known(const protocol::DeviceInventory& device, const std::string& what) {
  return Error{ErrorCode::kFailedPrecondition,
               "device files of GPU " + place_name(device_id_of(device)) + ": " + what};
}

// The nodes of whole devices: nvidia0, nvidia1, ...
std::vector<std::string> whole_nodes(const std::string& root) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/dev", error)) {
    const std::string name = entry.path().filename();
    constexpr std::string_view kPrefix = "nvidia";
    if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) continue;
    const std::string_view number = std::string_view(name).substr(kPrefix.size());
    const bool is_number =
        std::ranges::all_of(number, [](unsigned char letter) { return std::isdigit(letter) != 0; });
    if (is_number && is_device(entry.path())) found.push_back("/dev/" + name);
  }
  return found;
}

// Where NVML does not tell, a single node can only be that of the only device.
Result<std::string> whole_node_of(const std::string& root,
                                  const protocol::DeviceInventory& device) {
  if (!device.minor) {
    const std::vector<std::string> nodes = whole_nodes(root);
    if (nodes.size() == 1) return nodes.front();
    return not_known(device, "NVML does not tell its minor number, and there are " +
                                 std::to_string(nodes.size()) +
                                 " files /dev/nvidiaN; use a newer driver");
  }
  const std::string path = "/dev/nvidia" + std::to_string(*device.minor);
  if (is_device(root + path)) return path;
  return not_known(device, path + " is not there; run nvidia-modprobe -c " +
                               std::to_string(*device.minor) + " as root");
}

Result<std::string> capability_node(const std::string& root,
                                    const protocol::DeviceInventory& device,
                                    const std::string& capability) {
  const std::string path = root + "/proc/driver/nvidia/capabilities/" + capability + "/access";
  const auto text = read_file(path, kMostCapabilityText);
  const auto minor = text.ok() ? capability_minor(*text) : std::nullopt;
  if (!minor) {
    return not_known(device, path +
                                 " does not name the file that gives access to the instance; load "
                                 "the driver with nv_cap_enable_devfs=1");
  }
  const std::string number = std::to_string(*minor);
  const std::string node = "/dev/nvidia-caps/nvidia-cap" + number;
  if (is_device(root + node)) return node;
  return not_known(device, node + " is not there; run nvidia-modprobe -f " + path + " as root");
}

Result<std::vector<std::string>> own_nodes(const std::string& root,
                                           const protocol::DeviceInventory& device) {
  ASSIGN_OR_RETURN(std::string whole, whole_node_of(root, device));
  std::vector<std::string> nodes = {std::move(whole)};
  if (!is_mig_instance(device_id_of(device))) return nodes;
  if (!device.minor || !device.gpu_instance || !device.compute_instance) {
    return not_known(device, "NVML does not tell which instance it is; use a newer driver");
  }
  const std::string gpu_instance =
      "gpu" + std::to_string(*device.minor) + "/mig/gi" + std::to_string(*device.gpu_instance);
  const std::string compute_instance =
      gpu_instance + "/ci" + std::to_string(*device.compute_instance);
  for (const std::string& capability : {gpu_instance, compute_instance}) {
    ASSIGN_OR_RETURN(std::string node, capability_node(root, device, capability));
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace

std::vector<sandbox::DeviceNode> DeviceNodes::of(DeviceId device) const {
  const auto found = own.find(device);
  if (found == own.end()) return {};
  std::vector<sandbox::DeviceNode> all = common;
  all.insert(all.end(), found->second.begin(), found->second.end());
  return all;
}

Result<DeviceNodes> find_device_nodes(const std::string& root,
                                      const std::vector<protocol::DeviceInventory>& devices) {
  DeviceNodes nodes;
  if (!is_device(root + "/dev/nvidiactl")) return nodes;
  for (const char* name : {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"}) {
    if (is_device(root + name)) nodes.common.push_back({root + name, name});
  }
  for (const protocol::DeviceInventory& device : devices) {
    ASSIGN_OR_RETURN(const std::vector<std::string> paths, own_nodes(root, device));
    auto& own = nodes.own[device_id_of(device)];
    for (const std::string& path : paths) own.push_back({root + path, path});
  }
  return nodes;
}

std::optional<uint32_t> capability_minor(std::string_view text) {
  const size_t line = text.find(kMinorLine);
  if (line == std::string_view::npos || (line > 0 && text[line - 1] != '\n')) return std::nullopt;
  text.remove_prefix(line + kMinorLine.size());
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  uint32_t minor = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), minor);
  const bool is_whole = end == text.data() + text.size() || *end == '\n';
  return error == std::errc() && is_whole ? std::optional(minor) : std::nullopt;
}

}  // namespace lambent::worker
