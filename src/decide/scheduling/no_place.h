// NoPlace: what a search for a place looked at when it found none, so that the next one need not
// look again while none of that has changed. A value; made by Fleet, kept by policies beside flows
// that wait.
#pragma once

#include <cstdint>

#include "core/base/time.h"
#include "core/base/units.h"
#include "decide/scheduling/wait_reason.h"

namespace lambent::scheduling {

struct NoPlace {
  enum class Because : uint8_t {
    kUnknown,  // nothing was noted
    kWarm,     // its idle sandboxes may not run, and no start elsewhere is worth it
    kAtWork,   // it has none, and waits for those at work or starting
    kNowhere,  // it has none, and no device takes a new one
  };
  Because because = Because::kUnknown;
  bool idle_devices_only = false;  // as it was asked
  // kAtWork: it is unknown yet what its cold start takes, and its first start will tell.
  bool first_start = false;
  WaitReason warm_reason = WaitReason::kNone;  // kWarm: what keeps them from running
  Bytes memory;                                // that a new one would take
  Instant then = kNever;  // kWarm, kAtWork: from when on a start elsewhere is worth it
};

}  // namespace lambent::scheduling
