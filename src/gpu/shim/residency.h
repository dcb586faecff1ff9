// Residency: the device memory that the shim allocates in the driver's stead, mapped by hand so
// that it can leave the device and come back to the same addresses. It allocates, and owns the
// parts that free (FreedMemory), follow the working set (NamedMemory) and hold the budget
// (OffloadBudget) over one table. One object in the driver shim, made at its first use and made
// afresh in a forked child; any thread.
#pragma once

#include <sys/types.h>

#include "core/protocol/memory_message.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/block_maker.h"
#include "gpu/shim/freed_memory.h"
#include "gpu/shim/memory_table.h"
#include "gpu/shim/named_memory.h"
#include "gpu/shim/offload_budget.h"
#include "gpu/shim/own_mappings.h"
#include "gpu/shim/pool_table.h"

namespace lambent::shim {

class Residency {
 public:
  // Null unless LAMBENT_SHIM_MEMORY_MODE says vmm or uvm, and inside a call that a driver makes by
  // itself.
  static Residency* current();
  // kVmm: blocks are mapped by hand. kManaged: each allocation is a block of managed memory.
  protocol::MemoryMode mode() const { return maker_.mode(); }

  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) = delete;

  // In place of cuMemAlloc. The caller holds a GateScope, here and below.
  Status allocate(Address* address, uint64_t bytes);
  // In place of cuMemAllocFromPoolAsync, or cuMemAllocAsync without a pool; not while the stream is
  // captured.
  Status allocate_in_stream(Address* address, uint64_t bytes, Handle pool, const Stream& stream);

  // What the program knows at this address: false if there is nothing of ours.
  bool find(Address address, device_memory::Allocation* found);
  // Whether the address is one of ours to give, be it given or not.
  bool owns(Address address);

  // How memory is freed.
  FreedMemory& freed() { return freed_; }
  // For the working set: what calls name, and how much of what is offloaded may come back.
  NamedMemory& named() { return named_; }
  OffloadBudget& budget() { return budget_; }
  // What the program makes and maps by itself; null where that is the driver's own business.
  OwnMappings* own() { return is_managed() ? nullptr : &own_; }

  // Pools that the program makes and that are as the device's own: their memory is ours to give.
  void pool_is_made(Handle pool, Device device) { pools_.hold()->add(pool, device); }
  void pool_is_gone(Handle pool) { pools_.hold()->remove(pool); }
  // The device that a pool's memory of ours lies on; false if the pool's memory is the driver's.
  bool device_of_pool(Handle pool, Device* device);
  // All that belonged to a context, or to a device's pools, goes.
  void context_is_gone(Handle context);
  // What was the one context's is the other's from now on.
  void context_is_inherited(Handle context, Handle heir);
  void pools_are_gone(Device device);
  // From now on `peer` reaches all of the device's memory that is ours.
  Status open_to_peer(Device device, Device peer);

  // Gives back what nothing uses: frees that streams have reached, blocks that are kept for more.
  void tidy();
  // The same when all work is over: also frees that waited for it.
  void settle();
  // What of the blocks a move would have to copy, and with what the program maps by itself.
  uint64_t block_bytes();
  uint64_t used_bytes() { return block_bytes() + own_.moving_bytes(); }
  // Some device that it would do so from (-1: none).
  Device some_device();
  // As how much what is here counts against the limit of a device.
  uint64_t counted_bytes(const Accounting& accounting, Device device);

  // For moves, with the gate shut: nothing comes or goes.
  bool is_managed() const { return maker_.is_managed(); }
  MemoryTable& table_at_rest() { return table_.unguarded(); }
  OwnMappings& own_mappings() { return own_; }

 private:
  explicit Residency(protocol::MemoryMode mode);

  Status place(device_memory::Allocation* allocation, Handle context);
  Status make_block(const device_memory::Allocation& allocation, Handle context,
                    device_memory::Block* made);
  bool enter(const device_memory::Block& block, device_memory::Allocation* allocation);
  void drop_blocks_of(const device_memory::Owner& owner);

  BlockMaker maker_;
  GuardedMemory table_;
  FreedMemory freed_{table_, maker_};
  NamedMemory named_{table_};
  OffloadBudget budget_{table_};
  OwnMappings own_;  // guards itself
  Guarded<PoolTable> pools_;
  const pid_t owner_;
};

}  // namespace lambent::shim
