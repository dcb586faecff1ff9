#include "core/domain/slice.h"

namespace lambent {

std::string place_name(DeviceId device) {
  if (device == DeviceId(0)) return "cpu";
  const std::string gpu = std::to_string(gpu_of(device));
  if (!is_mig_instance(device)) return gpu;
  return gpu + ":" + std::to_string((device.value - 1001) % kInstancesOfGpu);
}

std::string place_names(DeviceId device, std::span<const DeviceId> beside) {
  std::string names = place_name(device);
  for (const DeviceId other : beside) names += "," + place_name(other);
  return names;
}

}  // namespace lambent
