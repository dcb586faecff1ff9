#include "gpu/device_memory/allocations.h"

#include <new>

namespace lambent::device_memory {

Allocations::~Allocations() {
  for (Block& block : blocks_) free(block.pieces);
}

bool Allocations::add_block(const Block& block, bool divisible) {
  Block added = block;
  added.pieces = nullptr;
  if (divisible) {
    void* memory = malloc(sizeof(PieceMap));
    if (memory == nullptr) return false;
    added.pieces = new (memory) PieceMap;
  }
  if (blocks_.insert(added)) return true;
  free(added.pieces);
  return false;
}

bool Allocations::place_small(Allocation* allocation) {
  for (Block& block : blocks_) {
    if (block.pieces == nullptr || !(block.owner == allocation->owner)) continue;
    const uint32_t offset = block.pieces->take(allocation->bytes);
    if (offset == PieceMap::kNone) continue;
    allocation->base = block.base + offset;
    allocation->number = ++last_number_;
    if (allocations_.insert(*allocation)) return true;
    block.pieces->give_back(offset);
    return false;
  }
  return false;
}

bool Allocations::place_whole(Allocation* allocation) {
  allocation->number = ++last_number_;
  return allocations_.insert(*allocation);
}

Allocation* Allocations::containing(uint64_t address) {
  Allocation* found = allocations_.containing(address);
  return found == nullptr || found->is_leaving ? nullptr : found;
}

Allocation* Allocations::at(uint64_t base) {
  Allocation* found = allocations_.at(base);
  return found == nullptr || found->is_leaving ? nullptr : found;
}

bool Allocations::remove(Allocation* allocation, Block* gone) {
  const uint64_t base = allocation->base;
  allocations_.remove(allocation);
  Block* block = blocks_.containing(base);
  if (block == nullptr) return false;
  if (block->pieces != nullptr) {
    block->pieces->give_back(static_cast<uint32_t>(base - block->base));
    // The last one stays: who allocates little by little would make and unmake it all the time.
    if (!block->pieces->is_empty() || !has_other_divisible(*block)) return false;
  }
  take_out(block, gone);
  return true;
}

bool Allocations::remove_block_of(const Owner& owner, Block* gone) {
  for (const Block& block : blocks_) {
    if (!(block.owner == owner)) continue;
    remove_block_at(block.base, gone);
    return true;
  }
  return false;
}

bool Allocations::remove_empty_block(Block* gone) {
  for (Block& block : blocks_) {
    if (block.pieces == nullptr || !block.pieces->is_empty()) continue;
    take_out(&block, gone);
    return true;
  }
  return false;
}

void Allocations::remove_block_at(uint64_t base, Block* gone) {
  Block* block = blocks_.at(base);
  if (block == nullptr) return;
  for (size_t i = allocations_.size(); i-- > 0;) {
    Allocation* allocation = allocations_.begin() + i;
    if (allocation->base - base < block->bytes) allocations_.remove(allocation);
  }
  take_out(block, gone);
}

bool Allocations::revive(Allocation* allocation) {
  Allocation* leaving = allocations_.at(allocation->base);
  Block* block = blocks_.containing(allocation->base);
  if (leaving == nullptr || block == nullptr || !leaving->is_leaving) return false;
  allocation->number = ++last_number_;
  *leaving = *allocation;
  if (block->pieces == nullptr) {
    block->used_bytes = (allocation->bytes + kPieceBytes - 1) / kPieceBytes * kPieceBytes;
  }
  return true;
}

bool Allocations::has_other_divisible(const Block& block) {
  for (const Block& other : blocks_) {
    if (other.pieces != nullptr && other.base != block.base && other.owner == block.owner) {
      return true;
    }
  }
  return false;
}

void Allocations::take_out(Block* block, Block* gone) {
  free(block->pieces);
  *gone = *block;
  gone->pieces = nullptr;
  blocks_.remove(block);
}

}  // namespace lambent::device_memory
