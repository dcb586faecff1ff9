// OwnMoves: moves memory which the program made and mapped by itself: what it can copy by a mapping
// of the whole, open to its device. The rest stays. With the gate shut and the work done, by the
// one thread that moves memory (mover.h).
#pragma once

#include <stdint.h>

#include "core/protocol/memory_message.h"
#include "gpu/shim/device_link.h"
#include "gpu/shim/host_memory.h"
#include "gpu/shim/moved_blocks.h"
#include "gpu/shim/own_mappings.h"

namespace lambent::shim {

class OwnMoves {
 public:
  using Status = protocol::MemoryMoveStatus;

  // Both outlive it.
  OwnMoves(DeviceLink& link, HostMemory& host) : link_(link), host_(host) {}
  OwnMoves(const OwnMoves&) = delete;
  OwnMoves& operator=(const OwnMoves&) = delete;

  // Copies all to or from the host, where it begins at `position` of the arena; makes the device's
  // memory again if it comes in. If there is too little, kNoDeviceMemory, and some of it is to be
  // released. `blocks` know contexts to work in.
  Status carry(OwnMappings& own, Blocks& blocks, uint64_t position,
               protocol::LinkDirection direction);
  void release(OwnMappings& own);

 private:
  DeviceLink& link_;
  HostMemory& host_;
};

}  // namespace lambent::shim
