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

// What has to come free, and how much of it may wait for sandboxes that start or work.
struct HostShortage {
  Bytes needed;
  Bytes may_wait;
};

// Those that leave so that `needed` comes free, or as much of that as can: of those that rest, are
// none of min_instances and have no call waiting. Those go first whose bytes are expected to be
// worth least: what a start takes, times how often they are called, over what they hold. A start
// that was measured seldom, and took much longer than is usual here, is not believed in full. By
// EvictionRule::kLeastRecentlyUsed those go first that were not used for longest. None leaves that
// the others make unnecessary. One that starts or works and is worth less than those at rest will
// leave in their place as soon as it rests, when this is asked again; up to `may_wait` they stay
// for it, unless its function has calls waiting.
std::vector<SandboxSlot> host_victims(const Fleet& host, const Flows& flows,
                                      std::span<const MeasuredSandbox> measured,
                                      HostShortage shortage, Instant now);

}  // namespace lambent::scheduling
