// FreedMemory: what the program has freed while work may still use it: in the order of a stream
// that has not reached the free, or while a stream is captured. The same stream may have its memory
// again before that. Any thread that holds a GateScope.
#pragma once

#include <stddef.h>

#include "gpu/device_memory/allocations.h"
#include "gpu/shim/block_maker.h"
#include "gpu/shim/memory_table.h"
#include "gpu/shim/pending_frees.h"

namespace lambent::shim {

class FreedMemory {
 public:
  // Both outlive it.
  FreedMemory(GuardedMemory& table, BlockMaker& maker) : table_(table), maker_(maker) {}
  FreedMemory(const FreedMemory&) = delete;
  FreedMemory& operator=(const FreedMemory&) = delete;

  // In place of cuMemFree: as the driver does, waits for work that may still use the memory.
  Status deallocate(Address address);
  // In place of cuMemFreeAsync.
  Status deallocate_in_stream(Address address, const Stream& stream);
  // Memory for an allocation in the order of the stream: what the same stream has freed, or what
  // has been reached. False if there is none of its size.
  bool reuse(device_memory::Allocation* allocation, const Stream& stream);

  // Whether so many frees wait that those which were reached should go.
  bool is_long();
  // Gives back what the streams have reached; with `wait`, what they have not as well.
  void reclaim(bool wait);
  // Gives back what waits for nothing but for this context, or for any, to come to rest: it has.
  void reclaim_deferred(Handle context, bool any);
  // The context is gone, with its work.
  void forget_all_of(Handle context);
  // What waits for the one context waits for the other from now on.
  void hand_over(GuardedMemory::Held& table, Handle context, Handle heir);

 private:
  // The allocation was marked as leaving, and nothing uses its memory any more.
  void finish(const PendingFree& freed);

  GuardedMemory& table_;
  BlockMaker& maker_;
  PendingFrees pending_;  // the table's mutex guards it
};

}  // namespace lambent::shim
