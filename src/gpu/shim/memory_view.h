// The one formula by which a memory limit narrows what a device reports. A pure function, so that
// cuMemGetInfo, cuDeviceTotalMem and NVML cannot disagree.
#pragma once

#include <cstdint>

namespace lambent::shim {

struct MemoryView {
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
};

// `used` is what the sandbox holds; a limit of 0 is none. What others hold on the device still
// counts: free never exceeds what the device really has. Under a limit beyond the device's memory
// the device's own answer stands, however much of what is counted lies elsewhere (managed memory).
constexpr MemoryView narrowed(MemoryView device, uint64_t limit, uint64_t used) {
  if (limit == 0) return device;
  MemoryView view = device;
  if (view.total_bytes > limit) view.total_bytes = limit;
  const uint64_t left = used < limit ? limit - used : 0;
  if (view.free_bytes > left) view.free_bytes = left;
  return view;
}

}  // namespace lambent::shim
