// Slice: a part of a GPU that a stage of a pipeline may be given: a MIG instance, or a whole
// device. A value; made from what lambent-device finds, read by planners and policies, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/base/ids.h"
#include "core/base/units.h"

namespace lambent {

// Devices have ids by their place: whole ones from 1 on, in NVML's order; the MIG instances of the
// GPU with NVML's index g, which NVML numbers by themselves, from 1001 + 8 g on.
constexpr uint32_t kInstancesOfGpu = 8;
constexpr DeviceId whole_device(uint32_t gpu) { return DeviceId(gpu + 1); }
constexpr DeviceId mig_instance(uint32_t gpu, uint32_t place) {
  return DeviceId(1001 + gpu * kInstancesOfGpu + place);
}
constexpr bool is_mig_instance(DeviceId device) { return device >= mig_instance(0, 0); }
constexpr uint32_t gpu_of(DeviceId device) {
  return is_mig_instance(device) ? (device.value - 1001) / kInstancesOfGpu : device.value - 1;
}
// As people read it: "0", or "0:2" of an instance.
std::string place_name(DeviceId device);
// Of what is on several: "0,1".
std::string place_names(DeviceId device, std::span<const DeviceId> beside);

// What matters of a slice to who plans: two of one shape are as good as each other.
struct SliceShape {
  std::string name;  // "2g.20gb"; of a whole device its name
  unsigned multiprocessors = 0;
  Bytes memory;

  bool operator==(const SliceShape&) const = default;
};

struct Slice {
  DeviceId id;
  uint32_t gpu = 0;   // the physical device that it is a part of
  uint32_t node = 0;  // always 0 on a worker; simulations have several
  std::string uuid;
  SliceShape shape;
  // What it promises to those who run on it, and to those on other slices of its device.
  bool memory_isolated = true;
  bool fault_isolated = true;
  bool runs_concurrently = true;

  bool operator==(const Slice&) const = default;
};

}  // namespace lambent
