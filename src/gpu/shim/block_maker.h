// BlockMaker: makes the blocks of device memory that can move, at addresses that stay, and gives
// them back. In mode vmm a block is mapped by hand; in mode uvm it is managed memory. Any thread.
#pragma once

#include <stdint.h>

#include "core/protocol/memory_message.h"
#include "gpu/device_memory/address_space.h"
#include "gpu/device_memory/allocations.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/guarded.h"

namespace lambent::shim {

// What the shim answers itself where it does nothing: the driver is to do it.
constexpr Status kAskDriver = -1;

class BlockMaker {
 public:
  explicit BlockMaker(protocol::MemoryMode mode) : mode_(mode) {}
  BlockMaker(const BlockMaker&) = delete;
  BlockMaker& operator=(const BlockMaker&) = delete;

  protocol::MemoryMode mode() const { return mode_; }
  bool is_managed() const { return mode_ == protocol::MemoryMode::kManaged; }
  // Whether memory of the device can be made so that it moves.
  bool can_make(Device device) const;
  // A block for the allocation, or for it and other small ones. `is_offloaded`: if it can be, it
  // begins on the host.
  Status make(const device_memory::Allocation& allocation, Handle context, bool is_offloaded,
              device_memory::Block* made);
  // Nothing uses it any more.
  void dispose_of(const device_memory::Block& block);
  // Whether the address is one that mapped blocks may have, be there one or not.
  bool has_reserved(Address address);

 private:
  Status make_mapped(const device_memory::Allocation& allocation, Handle context, bool is_offloaded,
                     device_memory::Block* made);
  Status back_with_host_memory(device_memory::Block* block);
  Status make_managed(const device_memory::Allocation& allocation, Handle context,
                      device_memory::Block* made);
  Status take_addresses(Device device, uint64_t bytes, uint64_t* base);

  const protocol::MemoryMode mode_;
  Guarded<device_memory::AddressSpace> space_;
};

}  // namespace lambent::shim
