// The driver's calls for managed memory that stands in for plain device memory. Any thread; nothing
// is remembered but facts about devices.
#pragma once

#include <stdint.h>

#include "gpu/shim/abi.h"

namespace lambent::shim {

// How managed memory that went to the host comes back: it is carried ahead of its use; the driver
// is told that the device is where it belongs, and carries what kernels touch; or it is told
// nothing.
enum class ManagedWay : int { kUnread, kPrefetch, kAdvise, kFaults };
// What LAMBENT_SHIM_UVM says; read once.
ManagedWay managed_way();

// Whether managed memory of the device can be moved ahead of its use. If not, a line in the log
// says so once.
bool device_can_manage(Device device);
// What the driver has free on the current context's device; 0 if it does not say.
uint64_t free_bytes_of_current_device();

// Memory that prefers to lie on the device, unless nothing is to be told to the driver.
Status allocate_managed(Device device, uint64_t bytes, uint64_t* base);
void free_managed(uint64_t base);
// Says that it belongs on the device, and moves nothing.
Status advise_managed(uint64_t base, uint64_t bytes, Device device);
// Carries it to the device and waits until it is there. A context is current.
Status populate_managed(Device device, uint64_t base, uint64_t bytes);
// Carries it in the order of a stream; kHost is the place that is no device.
constexpr Device kHost = -1;
Status prefetch_managed(uint64_t base, uint64_t bytes, Device place, Handle stream);

}  // namespace lambent::shim
