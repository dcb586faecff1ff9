// A part of a move, done for each device of the process at the same time, so that each copies over
// its own link. For the agent's thread, with the gate shut.
#pragma once

#include <stdint.h>

#include "core/protocol/memory_message.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/device_link.h"

namespace lambent::shim {

// On a thread of its own or the caller's. The link is for the turns of that thread.
using DeviceMove = protocol::MemoryMoveStatus (*)(void* owner, Device device, DeviceLink& link);

// Moves the devices that `devices` has bits of: the first on this thread, with the process's link,
// and each other beside it. Returns when all are over: kDone if all were done, kFailed if one
// failed, else what one that was not done says.
protocol::MemoryMoveStatus move_at_once(uint64_t devices, DeviceLink& link, void* owner,
                                        DeviceMove move);

}  // namespace lambent::shim
