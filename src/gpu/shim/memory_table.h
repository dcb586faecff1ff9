// MemoryTable: the memory of this process that can move: what was allocated, the blocks it lies in,
// and which of these the program's calls have named recently. A value behind one mutex, which is
// held for no call of the driver that may wait.
#pragma once

#include "gpu/device_memory/allocations.h"
#include "gpu/device_memory/working_set.h"
#include "gpu/shim/guarded.h"

namespace lambent::shim {

using Blocks = device_memory::AddressTable<device_memory::Block>;

struct MemoryTable {
  device_memory::Allocations allocations;
  device_memory::WorkingSet working_set;

  Blocks& blocks() { return allocations.blocks(); }
};

using GuardedMemory = Guarded<MemoryTable>;

}  // namespace lambent::shim
