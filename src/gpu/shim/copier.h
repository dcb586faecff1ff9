// Copier: carries device memory to the host or back, through two streams of its own, in quanta for
// which it waits its turn on the link. One row of copies in one direction on one device; used only
// by the agent's thread.
#pragma once

#include <stdint.h>

#include "gpu/shim/abi.h"
#include "gpu/shim/device_link.h"
#include "gpu/shim/host_memory.h"

namespace lambent::shim {

class Copier {
 public:
  // A context of the device is current, and stays so. `bytes` is the sum of what will be copied.
  Copier(Device device, protocol::LinkDirection direction, uint64_t bytes, DeviceLink& link,
         const device_memory::HostArena& arena);
  // Waits for what is under way.
  ~Copier();
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  // Copies `bytes` at the device's `address` to or from the arena's row at `position`. It has
  // happened once finish() says so.
  Status copy(Address address, uint64_t position, uint64_t bytes);
  // Copies `bytes` from one address of the device's to another, of which one is on the host.
  Status copy_across(Address to, Address from, uint64_t bytes);
  // Carries managed memory to a device, or to the host.
  Status prefetch(Address address, uint64_t bytes, Device place);
  Status finish();

 private:
  // One quantum that is under way.
  struct Quantum {
    Handle stream = nullptr;
    Handle event = nullptr;
    uint64_t bytes = 0;  // zero: nothing is under way here
    bool is_granted = false;
  };

  // Carries pieces of a range in quanta: `piece` starts one of at most so many bytes at this offset
  // into the range on the stream, and says how many it took.
  template <typename Piece>
  Status carry(uint64_t bytes, Piece piece);
  Status next_quantum();
  Status hand_over(const Quantum& quantum);
  // Waits until the quantum is on the other side, and gives the turn back.
  Status complete(Quantum& quantum);
  bool is_done(const Quantum& quantum);
  void want_next();

  protocol::LinkDirection direction_;
  DeviceLink& link_;
  const device_memory::HostArena& arena_;
  uint64_t unasked_bytes_;  // of all, those for which no turn was asked yet
  uint64_t asked_bytes_ = 0;
  uint64_t left_in_quantum_ = 0;
  Quantum quanta_[2];
  unsigned current_ = 1;
  Status status_ = kSuccess;
};

}  // namespace lambent::shim
