// Allocations: what a process has allocated, and the blocks of mapped device memory that it lies
// in: large allocations in a block of their own, small ones together. Decides places, calls no
// driver. Not synchronised; without the C++ library.
#pragma once

#include <stdint.h>

#include "gpu/device_memory/address_table.h"
#include "gpu/device_memory/piece_map.h"

namespace lambent::device_memory {

// Whose memory it is. Only what has the same owner lies in one block.
struct Owner {
  void* context = nullptr;  // null: memory of a pool, which belongs to the device
  int device = 0;
  bool operator==(const Owner&) const = default;
};

// Physical memory that is mapped, or was before it moved out, at addresses of its own.
struct Block {
  uint64_t base = 0;
  uint64_t bytes = 0;
  uint64_t physical = 0;    // the driver's handle
  uint64_t used_bytes = 0;  // from the beginning; what a move has to copy
  Owner owner;
  void* context = nullptr;     // one in which its owner can be worked with
  PieceMap* pieces = nullptr;  // null: one allocation has it all
  // The physical memory is the host's: the device reaches it there, also while the rest is out.
  bool is_offloaded = false;
  // As how much of the limit what lies here counted when that was last noted.
  uint64_t counted_bytes = 0;
  // WorkingSet's own.
  uint64_t last_touch = 0;  // the stay; 0: none
  uint64_t turn = 0;        // in the order in which blocks were first touched in that stay
  bool is_referenced = false;
};

// What the program knows of.
struct Allocation {
  uint64_t base = 0;
  uint64_t bytes = 0;       // as many as were asked for
  uint64_t number = 0;      // no two allocations of a process have the same
  void* context = nullptr;  // that was current when it was made
  void* pool = nullptr;     // null: none
  Owner owner;
  bool is_leaving = false;  // freed, but its memory may still be in use: unknown to the program
};

class Allocations {
 public:
  Allocations() = default;
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;
  ~Allocations();

  // Whether an allocation of `bytes` shares a block with others.
  static bool is_small(uint64_t bytes) { return bytes < kPieceBlockBytes; }

  // Enters a block, divisible among small allocations or whole. False if there is no memory for
  // that.
  bool add_block(const Block& block, bool divisible);
  // Places `allocation` in a divisible block of its owner and sets its base. False: none has room.
  bool place_small(Allocation* allocation);
  // Enters an allocation that has the block at its base to itself.
  bool place_whole(Allocation* allocation);

  // The allocation that the address lies in, or begins at; null if there is none, or it is leaving.
  Allocation* containing(uint64_t address);
  Allocation* at(uint64_t base);
  // As at(), but one that is leaving too.
  Allocation* leaving_at(uint64_t base) { return allocations_.at(base); }

  // Takes an allocation out. If nothing is left of its block, and the owner has another block for
  // small ones or this was a whole one, the block goes too: true, and *gone is what was there.
  bool remove(Allocation* allocation, Block* gone);
  // Takes out some block of the owner, with all that lies in it; false if there is none.
  bool remove_block_of(const Owner& owner, Block* gone);
  // Takes out some block in which nothing lies; false if there is none.
  bool remove_empty_block(Block* gone);
  // Takes out the block that begins there, with all that lies in it.
  void remove_block_at(uint64_t base, Block* gone);

  // Makes what is leaving at allocation->base this allocation, with a number of its own; it takes
  // as much room as the old one. False if nothing leaves there.
  bool revive(Allocation* allocation);

  AddressTable<Block>& blocks() { return blocks_; }
  AddressTable<Allocation>& all() { return allocations_; }

 private:
  bool has_other_divisible(const Block& block);
  void take_out(Block* block, Block* gone);

  AddressTable<Block> blocks_;
  AddressTable<Allocation> allocations_;
  uint64_t last_number_ = 0;
};

}  // namespace lambent::device_memory
