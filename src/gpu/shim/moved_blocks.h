// What the ways of moving memory share: which devices have blocks, and a context to work with each
// in. For the agent's thread, with the gate shut.
#pragma once

#include "core/protocol/memory_message.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/driver_mapping.h"
#include "gpu/shim/memory_table.h"

namespace lambent::shim {

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

// Does `move(device)` for each of them, until it does not end with kDone.
template <typename Move>
protocol::MemoryMoveStatus for_each_device(Blocks& blocks, Move move) {
  const uint64_t devices = devices_of(blocks);
  for (Device device = 0; device < kMostDevices; ++device) {
    if ((devices >> device & 1) == 0) continue;
    const protocol::MemoryMoveStatus status = move(device);
    if (status != protocol::MemoryMoveStatus::kDone) return status;
  }
  return protocol::MemoryMoveStatus::kDone;
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
