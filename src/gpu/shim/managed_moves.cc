#include "gpu/shim/managed_moves.h"

#include "gpu/shim/copier.h"
#include "gpu/shim/driver_mapping.h"
#include "gpu/shim/environment.h"
#include "gpu/shim/log.h"
#include "gpu/shim/managed_memory.h"

namespace lambent::shim {

using device_memory::Block;
using protocol::LinkDirection;
using protocol::MemoryMoveStatus;

namespace {

// Nothing where nothing is to be told to the driver.
void advise_all(Blocks& blocks, Device device) {
  if (managed_way() != ManagedWay::kAdvise) return;
  for (const Block& block : blocks) {
    if (block.owner.device == device) advise_managed(block.base, block.used_bytes, device);
  }
}

// A device that is full would release other memory of this process, and say nothing: so look,
// whichever way it comes in. In the context that is current.
bool has_room(Blocks& blocks, Device device) {
  return may_oversubscribe() || sum_of_used(blocks, device) <= free_bytes_of_current_device();
}

MemoryMoveStatus look_for_room(Blocks& blocks) {
  return for_each_device(blocks, [&](Device device) {
    const ContextOf context(blocks, device);
    if (!context.is_current()) return MemoryMoveStatus::kFailed;
    return has_room(blocks, device) ? MemoryMoveStatus::kDone : MemoryMoveStatus::kNoDeviceMemory;
  });
}

}  // namespace

// Others may take what one device has free while another copies: what came in then goes back.
MemoryMoveStatus ManagedMoves::move(Blocks& blocks, LinkDirection direction) {
  if (direction == LinkDirection::kToHost) return carry(blocks, direction);
  Status status = look_for_room(blocks);
  if (status != Status::kDone) return status;
  status = carry(blocks, direction);
  if (status != Status::kNoDeviceMemory) return status;
  return carry(blocks, LinkDirection::kToHost) == Status::kDone ? status : Status::kFailed;
}

MemoryMoveStatus ManagedMoves::carry(Blocks& blocks, LinkDirection direction) {
  const bool comes_in = direction == LinkDirection::kToDevice;
  return for_each_device(blocks, [&](Device device) {
    const ContextOf context(blocks, device);
    if (!context.is_current()) return Status::kFailed;
    if (comes_in && !has_room(blocks, device)) return Status::kNoDeviceMemory;
    if (comes_in && managed_way() != ManagedWay::kPrefetch) {
      advise_all(blocks, device);
      return Status::kDone;
    }
    Copier copier(device, direction, sum_of_used(blocks, device), link_, host_.arena());
    for (const Block& block : blocks) {
      if (block.owner.device != device) continue;
      if (copier.prefetch(block.base, block.used_bytes, comes_in ? device : kHost) != 0) break;
    }
    const int status = copier.finish();
    if (status == kSuccess) return Status::kDone;
    log_line("prefetching managed memory failed: %d", status);
    return Status::kFailed;
  });
}

}  // namespace lambent::shim
