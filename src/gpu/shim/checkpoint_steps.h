// How checkpoint_program.cc tells the shim what came of a step: its exit status.
#pragma once

namespace lambent::shim {

enum CheckpointExit : int {
  kCheckpointDone = 0,
  kCheckpointRefused = 3,   // nothing has changed
  kCheckpointNoMemory = 4,  // the device has no room; nothing has changed
  kCheckpointHalfWay = 5,   // the driver failed, and could not be brought back to where it was
};

}  // namespace lambent::shim
