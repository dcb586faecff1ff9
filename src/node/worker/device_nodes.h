// Which device files of NVIDIA's driver a sandbox sees, by the device that it runs on. Found once,
// when lambent-worker starts; a value afterwards.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/protocol/device_message.h"
#include "node/sandbox/plan.h"

namespace lambent::worker {

struct DeviceNodes {
  // Of the driver as a whole: /dev/nvidiactl, /dev/nvidia-uvm, /dev/nvidia-uvm-tools.
  std::vector<sandbox::DeviceNode> common;
  // A device's own: /dev/nvidiaN, and of a MIG instance the files that give access to it.
  std::map<DeviceId, std::vector<sandbox::DeviceNode>> own;

  // What a sandbox on the device sees; nothing for a device that is not known.
  std::vector<sandbox::DeviceNode> of(DeviceId device) const;

  bool operator==(const DeviceNodes&) const = default;
};

// Looks below `root`/dev and `root`/proc/driver/nvidia; `root` is empty but in tests. None where
// there is no nvidiactl: the driver is another one then, without such files. FAILED_PRECONDITION,
// saying what to do, if it cannot be told which files are a device's own.
Result<DeviceNodes> find_device_nodes(const std::string& root,
                                      const std::vector<protocol::DeviceInventory>& devices);

// N of /dev/nvidia-caps/nvidia-capN, from the text of a capability's file below
// /proc/driver/nvidia/capabilities; none if it does not say. Pure.
std::optional<uint32_t> capability_minor(std::string_view text);

}  // namespace lambent::worker
