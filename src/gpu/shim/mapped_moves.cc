#include "gpu/shim/mapped_moves.h"

#include "gpu/shim/copier.h"
#include "gpu/shim/devices_at_once.h"
#include "gpu/shim/driver_mapping.h"
#include "gpu/shim/log.h"

namespace lambent::shim {
namespace {

using device_memory::Block;
using protocol::LinkDirection;
using protocol::MemoryMoveStatus;

// Neighbours are given to the device together, up to so much: what lies in the first is copied
// while the next are made.
constexpr uint64_t kRunBytes = uint64_t{256} << 20;

// Makes and maps the blocks of a run of neighbours, and opens them all at once.
int map_run(Block* first, Block* last, Device device) {
  for (Block* block = first; block != last; ++block) {
    uint64_t physical = 0;
    int status = create_physical(device, block->bytes, &physical);
    if (status != kSuccess) return status;
    status = map_physical(block->base, block->bytes, physical);
    if (status != kSuccess) {
      release_physical(physical);
      return status;
    }
    block->physical = physical;
  }
  const uint64_t bytes = last[-1].base + last[-1].bytes - first->base;
  if (open_access(first->base, bytes, device) == kSuccess) return kSuccess;
  // Perhaps they were not reserved in one piece.
  for (Block* block = first; block != last; ++block) {
    const int status = open_access(block->base, block->bytes, device);
    if (status != kSuccess) return status;
  }
  return kSuccess;
}

Block* end_of_run(Block* first, Block* end) {
  uint64_t bytes = first->bytes;
  Block* next = first + 1;
  while (next != end && next->base == next[-1].base + next[-1].bytes &&
         moves_with(*next, first->owner.device) && bytes + next->bytes <= kRunBytes) {
    bytes += next->bytes;
    ++next;
  }
  return next;
}

}  // namespace

MemoryMoveStatus MappedMoves::copy_out(Blocks& blocks) {
  const uint64_t devices = devices_of(blocks);
  if (devices == 0) return Status::kDone;
  {
    const ContextOf context(blocks, __builtin_ctzll(devices));
    if (!context.is_current()) return Status::kFailed;
    host_.register_all();
  }
  moving_ = &blocks;
  return move_at_once(devices, link_, this, [](void* self, Device device, DeviceLink& link) {
    return static_cast<MappedMoves*>(self)->copy_out_of(device, link);
  });
}

MemoryMoveStatus MappedMoves::bring_in(Blocks& blocks) {
  moving_ = &blocks;
  const auto bring = [](void* self, Device device, DeviceLink& link) {
    return static_cast<MappedMoves*>(self)->bring_in_to(device, link);
  };
  return move_at_once(devices_of(blocks), link_, this, bring);
}

// Blocks lie in the row of the arena one after the other, in order of address, those of the first
// device first; nothing comes or goes while the gate is shut.
MemoryMoveStatus MappedMoves::copy_out_of(Device device, DeviceLink& link) {
  Blocks& blocks = *moving_;
  const ContextOf context(blocks, device);
  if (!context.is_current()) return Status::kFailed;
  uint64_t position = 0;
  for (Device before = 0; before < device; ++before) position += sum_of_used(blocks, before);
  Copier copier(device, LinkDirection::kToHost, sum_of_used(blocks, device), link, host_.arena());
  for (const Block& block : blocks) {
    if (!moves_with(block, device)) continue;
    if (copier.copy(block.base, position, block.used_bytes) != kSuccess) break;
    position += block.used_bytes;
  }
  const int status = copier.finish();
  if (status == kSuccess) return Status::kDone;
  log_line("copying memory out failed: %d", status);
  return Status::kFailed;
}

MemoryMoveStatus MappedMoves::bring_in_to(Device device, DeviceLink& link) {
  Blocks& blocks = *moving_;
  const ContextOf context(blocks, device);
  if (!context.is_current()) return Status::kFailed;
  uint64_t position = 0;
  for (Device before = 0; before < device; ++before) position += sum_of_used(blocks, before);
  Copier copier(device, LinkDirection::kToDevice, sum_of_used(blocks, device), link, host_.arena());
  for (Block* first = blocks.begin(); first != blocks.end();) {
    if (!moves_with(*first, device)) {
      ++first;
      continue;
    }
    Block* last = end_of_run(first, blocks.end());
    int status = map_run(first, last, device);
    for (Block* block = first; block != last && status == kSuccess; ++block) {
      status = copier.copy(block->base, position, block->used_bytes);
      position += block->used_bytes;
    }
    if (status != kSuccess) {
      copier.finish();
      if (status == kOutOfMemory) return Status::kNoDeviceMemory;
      log_line("bringing memory in failed: %d", status);
      return Status::kFailed;
    }
    first = last;
  }
  const int status = copier.finish();
  if (status == kSuccess) return Status::kDone;
  log_line("copying memory in failed: %d", status);
  return Status::kFailed;
}

void MappedMoves::release(Blocks& blocks) {
  for (Block& block : blocks) {
    if (block.physical == 0 || block.is_offloaded) continue;
    unmap(block.base, block.bytes);
    release_physical(block.physical);
    block.physical = 0;
  }
}

}  // namespace lambent::shim
