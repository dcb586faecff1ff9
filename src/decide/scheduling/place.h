// Place: where an invocation of a flow could go, or why it has no place. A value; made by Places,
// used by policies and by dispatch.
#pragma once

#include <cstdint>
#include <optional>

#include "decide/scheduling/sandbox.h"
#include "decide/scheduling/wait_reason.h"

namespace lambent::scheduling {

// Where an invocation of a flow could go now.
struct Place {
  uint32_t device = 0;            // index into devices()
  SandboxSlot warm = kNoSandbox;  // the idle sandbox to use; kNoSandbox: a new one is started
  uint64_t beside = 0;            // the other devices of a new one on several: Sandbox::beside
};
struct PlaceOrReason {
  std::optional<Place> place;
  WaitReason reason = WaitReason::kNone;
  // No place: it has sandboxes, all at work or on devices without a token, and waits for these.
  bool waits_where_warm = false;
};

}  // namespace lambent::scheduling
