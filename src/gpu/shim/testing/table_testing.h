// What tests of parts of Residency share: blocks with one allocation each in a table. Included by
// tests only; one thread.
#pragma once

#include <gtest/gtest.h>

#include "gpu/shim/memory_table.h"

namespace lambent::shim {

constexpr uint64_t kBlockBytes = uint64_t{4} << 20;

// A block that an allocation of `bytes` has to itself.
inline void add_block(GuardedMemory& table, uint64_t base, uint64_t bytes = kBlockBytes,
                      bool is_offloaded = false) {
  device_memory::Block block;
  block.base = base;
  block.bytes = kBlockBytes;
  block.used_bytes = bytes;
  block.is_offloaded = is_offloaded;
  device_memory::Allocation allocation;
  allocation.base = base;
  allocation.bytes = bytes;
  auto held = table.hold();
  ASSERT_TRUE(held->allocations.add_block(block, false));
  held->working_set.add(held->blocks().at(base));
  ASSERT_TRUE(held->allocations.place_whole(&allocation));
}

}  // namespace lambent::shim
