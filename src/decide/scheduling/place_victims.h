// Which idle sandboxes leave a device for a new one, or because what is taken of it crowds them
// out. Pure; used by dispatch. memory_victims.h has the rest, where memory moves.
#pragma once

#include <optional>
#include <vector>

#include "decide/scheduling/fleet.h"

namespace lambent::scheduling {

// The sandboxes to stop so that a new one of this memory may be planned there, by the eviction
// rule; empty if there is room already. Only for a place that was found for it. Under
// MemoryRule::kMoveIdle only the pool's limit counts here.
std::vector<SandboxSlot> victims_for(const Fleet& fleet, const Place& place, Bytes memory,
                                     const Flows& flows, Instant now);

// MemoryRule::kEverySandbox: of the idle sandboxes of a device on which so much was taken that
// all do not fit, the first that has to go; none: they fit, or all are at work.
std::optional<SandboxSlot> crowded_out(const Fleet& fleet, uint32_t device, const Flows& flows,
                                       Instant now);

// Whether an idle sandbox of the flow is one of its min_instances, as far as idle ones tell; of
// these, `gone` are on their way out already.
bool is_kept(const Fleet& fleet, const Flow& flow, FunctionId function, unsigned gone = 0);

}  // namespace lambent::scheduling
