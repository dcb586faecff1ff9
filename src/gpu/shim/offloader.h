// Offloader: puts what the working set does not hold into host memory that the device reaches at
// the same addresses, so that a call which names it all the same, or a kernel that finds its
// address in other memory, finds it: slower, never absent. Brings back what is wanted. With the
// gate shut and the work done, by the one thread that moves memory (mover.h).
#pragma once

#include <stdint.h>

#include "core/protocol/memory_message.h"
#include "gpu/shim/device_link.h"
#include "gpu/shim/host_memory.h"
#include "gpu/shim/memory_table.h"
#include "gpu/shim/offload_budget.h"

namespace lambent::shim {

class Offloader {
 public:
  using Status = protocol::MemoryMoveStatus;

  // Both outlive it.
  Offloader(DeviceLink& link, HostMemory& host) : link_(link), host_(host) {}
  Offloader(const Offloader&) = delete;
  Offloader& operator=(const Offloader&) = delete;

  // Both count into `bytes` what has changed sides. What finds no room on the other side stays
  // where it is. kFailed: memory was lost, and the process is of no use any more.
  // Where the device or the host has once refused it, nothing is offloaded any more.
  Status offload(MemoryTable& table, OffloadBudget& budget, uint64_t* bytes);
  // What the working set holds, as far as the budget allows it.
  Status bring_back(MemoryTable& table, OffloadBudget& budget, uint64_t* bytes);
  // Counts the host memory of what is offloaded again: the program may have freed some.
  void count(uint64_t host_bytes) { host_.count_offloaded(host_bytes, link_); }

 private:
  Status change_sides(MemoryTable& table, OffloadBudget& budget, bool to_host, uint64_t* bytes);

  DeviceLink& link_;
  HostMemory& host_;
  bool is_refused_ = false;  // by the device or the host: memory goes out whole
};

}  // namespace lambent::shim
