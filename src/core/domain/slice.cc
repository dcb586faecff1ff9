#include "core/domain/slice.h"

namespace lambent {

std::string place_name(DeviceId device) {
  if (device == DeviceId(0)) return "cpu";
  const std::string gpu = std::to_string(gpu_of(device));
  if (!is_mig_instance(device)) return gpu;
  return gpu + ":" + std::to_string((device.value - 1001) % kInstancesOfGpu);
}

}  // namespace lambent
