#include "emulator/emulated_node/health.h"

#include "gpu/cuda_abi/driver_types.h"
#include "gpu/cuda_abi/nvml.h"

namespace lambent::emulated_node {

namespace {

// The epoch is read without the lock: the reason stands before it changes.
void end_epoch(DeviceHealth& health, int reason) {
  __atomic_store_n(&health.reason, reason, __ATOMIC_RELAXED);
  __atomic_fetch_add(&health.epoch, 1, __ATOMIC_RELEASE);
}

}  // namespace

void add_event(NodeEvents& events, int device, uint64_t type, uint64_t data) {
  uint64_t number = uint64_t{events.count} + 1;
  events.last[number % kMaxNodeEvents] = {number, device, type, data};
  __atomic_store_n(&events.count, static_cast<uint32_t>(number), __ATOMIC_RELEASE);
}

const NodeEvent* event_after(const NodeEvents& events, uint64_t number) {
  const NodeEvent* first = nullptr;
  for (const NodeEvent& event : events.last) {
    if (event.number > number && (!first || event.number < first->number)) first = &event;
  }
  return first;
}

void lose(DeviceHealth& health, NodeEvents& events, int device) {
  if (health.lost) return;
  health.lost = 1;
  end_epoch(health, CUDA_ERROR_UNKNOWN);
  add_event(events, device, nvmlEventTypeXidCriticalError, kXidFellOffTheBus);
}

void corrupt(DeviceHealth& health, NodeEvents& events, int device) {
  if (health.lost) return;
  health.uncorrected++;
  health.uncorrected_volatile++;
  health.retired_pages++;
  end_epoch(health, CUDA_ERROR_ECC_UNCORRECTABLE);
  add_event(events, device, nvmlEventTypeDoubleBitEccError, 1);
  add_event(events, device, nvmlEventTypeXidCriticalError, kXidDoubleBitError);
}

void report(NodeEvents& events, int device, uint64_t xid) {
  add_event(events, device, nvmlEventTypeXidCriticalError, xid);
}

void reset(DeviceHealth& health) {
  health.lost = health.stuck = 0;
  health.slowdown = 0;
  health.uncorrected_volatile = 0;
  end_epoch(health, CUDA_ERROR_UNKNOWN);
}

}  // namespace lambent::emulated_node
