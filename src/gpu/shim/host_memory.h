// HostMemory: where device memory lies while it is out. Leased from lambent-device, or, where none
// is configured, anonymous; registered with the driver once and kept for the next time. Used only
// by the agent's thread.
#pragma once

#include <stdint.h>

#include "gpu/device_memory/host_arena.h"
#include "gpu/shim/device_link.h"

namespace lambent::shim {

class HostMemory {
 public:
  HostMemory() = default;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  // Has room for `bytes` from now on; false if no more is to be had.
  bool grow_to(uint64_t bytes, DeviceLink& link);
  // Page-locks what is not, or is no more. A context must be current. What the driver will not lock
  // still serves, only more slowly.
  void register_all();
  const device_memory::HostArena& arena() const { return arena_; }

  // Gives back all of it, leases and all. A context must be current, and nothing lie there.
  void release(DeviceLink& link);
  // So much of the driver's host memory holds what is offloaded: counted by lambent-device where
  // one is configured. False if it has no more to give: then it is as it was.
  bool count_offloaded(uint64_t bytes, DeviceLink& link);

 private:
  void* get(uint64_t missing, DeviceLink& link, uint64_t* got);

  device_memory::HostArena arena_;
  uint64_t offloaded_bytes_ = 0;
};

}  // namespace lambent::shim
