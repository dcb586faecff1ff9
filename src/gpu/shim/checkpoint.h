// Checkpoint: what is left of this process on its devices, context and code, taken off them by the
// driver's own means, and brought back. The driver wants to be asked by another process, so a small
// program beside the shim (checkpoint_program.cc) is started for each step. Used only by the
// agent's thread, with the gate shut.
#pragma once

#include "core/protocol/memory_message.h"

namespace lambent::shim {

// kDone, or kNotSupported: everything is as it was. kFailed: the driver left the process between
// two states.
protocol::MemoryMoveStatus checkpoint_this_process();
// kDone, kNoDeviceMemory (it stays where it is) or kFailed.
protocol::MemoryMoveStatus restore_this_process();

}  // namespace lambent::shim
