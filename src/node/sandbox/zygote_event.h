// ZygoteEvent: what became of a zygote. A value; made by lambent-launcher, read by the worker; any
// thread.
#pragma once

namespace lambent::sandbox {

enum class ZygoteEvent {
  kReady,    // sandboxes are forked from it from now on
  kFailed,   // it could not load, ended, hung or was refused: sandboxes start without it
  kRetired,  // unused for long, or another one needed its place
  kForked,   // a sandbox was; not a message
};

}  // namespace lambent::sandbox
