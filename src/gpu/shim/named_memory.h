// NamedMemory: what the program's calls name of its memory, for the working set, and whether what
// they name is to be fetched. Any thread that holds a GateScope.
#pragma once

#include <stdint.h>

#include "gpu/shim/memory_table.h"
#include "gpu/shim/passed_types.h"

namespace lambent::shim {

class NamedMemory {
 public:
  // The table outlives it.
  explicit NamedMemory(GuardedMemory& table) : table_(table) {}
  NamedMemory(const NamedMemory&) = delete;
  NamedMemory& operator=(const NamedMemory&) = delete;

  // A call names this address, be it one of ours or not: true if the memory there is offloaded and
  // has to be fetched first.
  bool touch(Address address);
  // The same where the driver looks on which side the memory lies: true if it is offloaded, whether
  // fetches were refused or not.
  bool note_access(Address address);
  // Something that is written into device memory may be this address.
  void note_reference(Address address);
  // A call of which it is not known what it reaches.
  void touch_anything();
  // Another number than before whenever what was touched once has to be touched again to be in the
  // set, or may be offloaded.
  uint64_t changes();
  // False: nothing has been offloaded so far.
  bool can_have_offload();

  // What was named and is offloaded is to be fetched; is fetched now; and is not to be fetched any
  // more in this stay.
  void want_fetch();
  void count_fetch();
  void refuse_fetches();
  // Whether to go on trying to fetch it; and that this was given up for the rest of the stay.
  bool may_retry();
  void give_up_retrying();

 private:
  GuardedMemory& table_;
};

}  // namespace lambent::shim
