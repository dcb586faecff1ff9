// Mover: takes the device memory of this process out to the host and brings it back, whole or its
// working set, with the gate shut in between: decides what moves when, and leaves each kind of
// memory to the type that moves it. Used by the agent's thread, and by those that fetch
// (agent.h), one at a time.
#pragma once

#include <stdint.h>

#include "core/protocol/memory_message.h"
#include "gpu/shim/device_link.h"
#include "gpu/shim/host_memory.h"
#include "gpu/shim/managed_moves.h"
#include "gpu/shim/mapped_moves.h"
#include "gpu/shim/offloader.h"
#include "gpu/shim/own_moves.h"
#include "gpu/shim/residency.h"

namespace lambent::shim {

struct Moved {
  protocol::MemoryMoveStatus status = protocol::MemoryMoveStatus::kDone;
  uint64_t bytes = 0;       // of the device's memory, that came free or were taken
  uint64_t left_bytes = 0;  // counted, and still on the device; of several, the most on any
  // Of the memory, what is offloaded: on the host, where the device reaches it while the rest is
  // in. After a move out: what will, once that is.
  uint64_t offloaded_bytes = 0;
};

class Mover {
 public:
  explicit Mover(DeviceLink& link) : link_(link) {}
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  bool is_out() const { return is_out_; }
  // Whether the memory, and the gate, are where they were if the status is not kDone: the gate is
  // shut while the memory is out, and open while it is in.
  Moved move_out();
  Moved move_in();
  // Out, and then all that is left: kNotSupported if that part could not be done, the memory being
  // out all the same.
  Moved move_out_with_context();
  // Brings in what is offloaded and was named by a call since the last move, as far as it was
  // granted, with the gate shut meanwhile. What cannot be fetched stays where it is, and is reached
  // there. Where memory is lost by it, moves end with kFailed from then on.
  void fetch();
  // From now on what the working set does not hold is offloaded when the memory moves out.
  void keep_working_set() { keeps_working_set_ = true; }
  // Another lambent-device than before may serve this process.
  void tell_what_is_held() { link_.tell_what_is_held(); }
  // Gets host memory for a move that is to be expected.
  void prepare();

 private:
  using Status = protocol::MemoryMoveStatus;

  Status take_out(Residency& residency, uint64_t* bytes);
  Status bring_in(Residency& residency, uint64_t* bytes);
  Status bring_managed_in(Blocks& blocks, uint64_t* bytes);
  Status bring_mapped_in(Residency& residency, uint64_t* bytes);
  // Waits for all work on memory of ours and settles the frees that waited for it.
  Status come_to_rest(Residency& residency);
  Status wait_for_owners(Residency& residency);
  bool get_host_memory(Residency& residency);

  DeviceLink& link_;
  HostMemory host_;
  // The ways to move memory, by its kind.
  MappedMoves mapped_{link_, host_};
  ManagedMoves managed_{link_, host_};
  OwnMoves own_{link_, host_};
  Offloader offloader_{link_, host_};
  bool keeps_working_set_ = false;
  bool is_broken_ = false;  // a fetch has failed
  bool is_out_ = false;
  bool is_checkpointed_ = false;
};

}  // namespace lambent::shim
