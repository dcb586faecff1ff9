// AddressSpace: which of the reserved device addresses are free. Neighbours in time become
// neighbours in place, so that the driver can be told of many at once. Not synchronised.
#pragma once

#include <stdint.h>

#include "gpu/device_memory/address_table.h"

namespace lambent::device_memory {

struct AddressRange {
  uint64_t base = 0;
  uint64_t bytes = 0;
};

class AddressSpace {
 public:
  // Adds addresses that were reserved in one piece. False if there is no memory to remember them.
  bool add_region(uint64_t base, uint64_t bytes);
  // The lowest free range of this size, which lies in one region; 0 if there is none. Sizes are the
  // caller's multiples of its granularity: nothing is rounded here.
  uint64_t take(uint64_t bytes);
  // Gives a range back that take() gave.
  void give_back(uint64_t base, uint64_t bytes);

  bool is_reserved(uint64_t address) { return regions_.containing(address) != nullptr; }
  uint64_t free_bytes();

 private:
  AddressTable<AddressRange> regions_;
  AddressTable<AddressRange> free_;
};

}  // namespace lambent::device_memory
