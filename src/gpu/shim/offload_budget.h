// OffloadBudget: how much of this process's memory is offloaded, and how much may come onto the
// device before the worker grants more. Any thread.
#pragma once

#include <stdint.h>

#include "gpu/shim/memory_table.h"

namespace lambent::shim {

class OffloadBudget {
 public:
  // The table outlives it.
  explicit OffloadBudget(GuardedMemory& table) : table_(table) {}
  OffloadBudget(const OffloadBudget&) = delete;
  OffloadBudget& operator=(const OffloadBudget&) = delete;

  // Notes of every block as how much what lies in it counts against the limit.
  void note_counted_bytes();
  // What is offloaded, as it counts; and of that, what is wanted on the device.
  uint64_t offloaded_bytes();
  uint64_t wanted_bytes();
  // What is offloaded, in whole blocks, as the host has it.
  uint64_t host_bytes();

  // The worker counts so much of what is offloaded as not on the device: what the device holds of
  // this process and others of the sandbox stays below the limit by that much. Set by a move out,
  // and less by so much as is granted.
  void spare(uint64_t bytes);
  void grant(uint64_t bytes);
  // How much more may come onto the device before more is granted.
  uint64_t room_on_device();
  // Whether the device has more of this process than it may: what was freed while it was offloaded
  // has left room in the limit that the device may not have.
  bool is_exceeded();
  // Whether all that is wanted could come onto the device, if there is any.
  bool can_fetch_wanted();

 private:
  // Of the limit: what is on the device, or about to be, and what may be.
  struct Share {
    uint64_t on_device = 0;
    uint64_t most = UINT64_MAX;
  };
  Share share_of_device();
  uint64_t spared_bytes();

  GuardedMemory& table_;
  uint64_t spared_bytes_ = 0;  // the table's mutex guards it
};

}  // namespace lambent::shim
