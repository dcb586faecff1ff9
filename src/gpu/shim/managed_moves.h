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

  // kNoDeviceMemory if it comes in and one of its devices has too little: nothing has come in then.
  Status move(Blocks& blocks, protocol::LinkDirection direction);

 private:
  DeviceLink& link_;
  const HostMemory& host_;
};

}  // namespace lambent::shim
