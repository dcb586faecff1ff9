// Which idle sandboxes without a GPU leave when the host's memory is short. Pure; used by the
// worker, which measures what each takes.
#pragma once

#include <span>
#include <vector>

#include "core/base/time.h"
#include "core/base/units.h"
#include "decide/scheduling/fleet.h"
#include "decide/scheduling/flow.h"

namespace lambent::scheduling {

// Of the host's fleet.
struct MeasuredSandbox {
  SandboxSlot slot = kNoSandbox;
  Bytes memory;
};

// Those that leave so that `needed` comes free, or as much of that as can: of those that rest, are
// none of min_instances and have no call waiting. Those go first whose bytes are expected to be
// worth least: what a start takes, times how often they are called, over what they hold; by
// EvictionRule::kLeastRecentlyUsed those that were not used for longest. None leaves that the
// others make unnecessary.
std::vector<SandboxSlot> host_victims(const Fleet& host, const Flows& flows,
                                      std::span<const MeasuredSandbox> measured, Bytes needed,
                                      Instant now);

}  // namespace lambent::scheduling
