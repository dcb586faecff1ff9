// Which of a node's devices serve pipelines, as its operator says, and which all other functions.
// Pure; used by lambent-worker when it starts.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/domain/slice.h"
#include "core/protocol/device_message.h"

namespace lambent::worker {

struct DeviceShares {
  std::vector<protocol::DeviceInventory> dispatched;
  std::vector<Slice> slices;  // of pipelines
};

// `choice` is "none", "all", "mig" (every MIG instance), or devices separated by commas, each a
// UUID or its beginning, the index of a whole device ("0"), or "<index>:<place>" of an instance.
// INVALID_ARGUMENT naming what is unknown or names several; a device that does not say how much
// memory it has serves no pipelines.
Result<DeviceShares> share_devices(const std::vector<protocol::DeviceInventory>& devices,
                                   const std::string& choice);

// Whether the name is the device's place ("0", "0:2") or how its UUID begins (8 letters at least).
bool is_called(const protocol::DeviceInventory& device, const std::string& name);

constexpr DeviceId device_id_of(const protocol::DeviceInventory& device) {
  return DeviceId(device.index + 1);
}

// What CUDA_VISIBLE_DEVICES calls it.
std::string visible_name(const protocol::DeviceInventory& device);

}  // namespace lambent::worker
