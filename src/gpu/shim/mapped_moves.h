// MappedMoves: moves the blocks that the shim has mapped by hand, by copies. With the gate shut and
// the work done, by the one thread that moves memory (mover.h).
#pragma once

#include "core/protocol/memory_message.h"
#include "gpu/shim/device_link.h"
#include "gpu/shim/host_memory.h"
#include "gpu/shim/moved_blocks.h"

namespace lambent::shim {

class MappedMoves {
 public:
  using Status = protocol::MemoryMoveStatus;

  // Both outlive it.
  MappedMoves(DeviceLink& link, HostMemory& host) : link_(link), host_(host) {}
  MappedMoves(const MappedMoves&) = delete;
  MappedMoves& operator=(const MappedMoves&) = delete;

  // Copies all to the host. The device's memory stays until it is released.
  Status copy_out(Blocks& blocks);
  // Makes the device's memory again and copies all back. If there is too little, kNoDeviceMemory,
  // and some of it is to be released.
  Status bring_in(Blocks& blocks);
  void release(Blocks& blocks);

 private:
  // Of one device, over its link; all of them at once.
  Status copy_out_of(Device device, DeviceLink& link);
  Status bring_in_to(Device device, DeviceLink& link);

  DeviceLink& link_;
  HostMemory& host_;
  Blocks* moving_ = nullptr;  // by the move under way
};

}  // namespace lambent::shim
