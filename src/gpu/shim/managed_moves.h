// ManagedMoves: moves managed memory: by prefetches, or by leaving it to the driver to carry what
// kernels touch. With the gate shut and the work done, by the one thread that moves memory
// (mover.h).
#pragma once

#include "core/protocol/memory_message.h"
#include "gpu/shim/device_link.h"
#include "gpu/shim/host_memory.h"
#include "gpu/shim/moved_blocks.h"

namespace lambent::shim {

class ManagedMoves {
 public:
  using Status = protocol::MemoryMoveStatus;

  // Both outlive it.
  ManagedMoves(DeviceLink& link, const HostMemory& host) : link_(link), host_(host) {}
  ManagedMoves(const ManagedMoves&) = delete;
  ManagedMoves& operator=(const ManagedMoves&) = delete;

  // kNoDeviceMemory if it comes in and one of its devices has too little: all is where it was then.
  Status move(Blocks& blocks, protocol::LinkDirection direction);

 private:
  // One device after the other; kNoDeviceMemory with what went before in its new place.
  Status carry(Blocks& blocks, protocol::LinkDirection direction);

  DeviceLink& link_;
  const HostMemory& host_;
};

}  // namespace lambent::shim
