// What has befallen the devices of a node: lost, stuck, errors of memory, slow links; and the
// events that tell of it. Plain values in the shared node file; the holder of the node's lock calls
// these.
#pragma once

#include <cstdint>

namespace lambent::emulated_node {

constexpr int kMaxNodeEvents = 64;  // those before are forgotten
constexpr int kXidDoubleBitError = 48, kXidPageRetirement = 63, kXidFellOffTheBus = 79;

struct DeviceHealth {
  // Contexts made in an earlier epoch are dead, and calls on them get `reason`, a CUresult.
  uint32_t epoch;
  int32_t reason;
  uint32_t lost;    // until it is reset
  uint32_t stuck;   // kernels that begin now never end, until it is reset
  double slowdown;  // of its links; 0: none
  uint64_t uncorrected_volatile, uncorrected;  // errors of memory, since the reset and ever
  uint32_t retired_pages;
};

// The type and data are those of NVML's events.
struct NodeEvent {
  uint64_t number;  // from 1 on; 0: none
  int32_t device;
  uint64_t type, data;
};

struct NodeEvents {
  uint32_t count;  // of all that ever were; waiters watch it
  NodeEvent last[kMaxNodeEvents];
};

void add_event(NodeEvents& events, int device, uint64_t type, uint64_t data);
// The first event after the one with this number, or null.
const NodeEvent* event_after(const NodeEvents& events, uint64_t number);

void lose(DeviceHealth& health, NodeEvents& events, int device);
// An error that its ECC cannot correct: the contexts of the moment die, a page is retired.
void corrupt(DeviceHealth& health, NodeEvents& events, int device);
// The driver says an Xid, and nothing else comes of it.
void report(NodeEvents& events, int device, uint64_t xid);
// Ends what was: the device is as new, but contexts from before stay dead.
void reset(DeviceHealth& health);

}  // namespace lambent::emulated_node
