// What the ways of moving memory share: which devices have blocks, and a context to work with each
// in. For the agent's thread, with the gate shut.
#pragma once

#include "gpu/device_memory/allocations.h"
#include "gpu/shim/abi.h"

namespace lambent::shim {

using Blocks = device_memory::AddressTable<device_memory::Block>;

// A context in which memory of the device can be worked with, current while this lives: one of the
// program's, or else the primary one.
class ContextOf {
 public:
  ContextOf(Blocks& blocks, Device device, Handle context = nullptr);
  ~ContextOf();
  ContextOf(const ContextOf&) = delete;
  ContextOf& operator=(const ContextOf&) = delete;
  bool is_current() const { return is_pushed_; }

 private:
  Device device_;
  bool is_retained_ = false;
  bool is_pushed_ = false;
};

// Whether the block moves with the rest: what is offloaded is on the host already.
inline bool moves_with(const device_memory::Block& block, Device device) {
  return block.owner.device == device && !block.is_offloaded;
}

// The devices that have blocks, one bit each.
inline uint64_t devices_of(Blocks& blocks) {
  uint64_t devices = 0;
  for (const device_memory::Block& block : blocks) devices |= uint64_t{1} << block.owner.device;
  return devices;
}

inline uint64_t sum_of_used(Blocks& blocks, Device device) {
  uint64_t sum = 0;
  for (const device_memory::Block& block : blocks) {
    if (moves_with(block, device)) sum += block.used_bytes;
  }
  return sum;
}

inline uint64_t bytes_offloaded(Blocks& blocks) {
  uint64_t sum = 0;
  for (const device_memory::Block& block : blocks) {
    if (block.is_offloaded) sum += block.bytes;
  }
  return sum;
}

}  // namespace lambent::shim
