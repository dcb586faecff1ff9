// Which idle sandbox makes room on a device where memory moves (MemoryRule::kMoveIdle), and how.
// Pure; used by dispatch.
#pragma once

#include <optional>
#include <vector>

#include "decide/scheduling/policy.h"

namespace lambent::scheduling {

enum class Relief {
  kMoveOut,         // its memory is moved to the host
  kMoveContextOut,  // and then what that left behind
  kEvict,           // it is stopped
};

struct MemoryVictim {
  SandboxSlot slot = kNoSandbox;
  Relief relief = Relief::kMoveOut;
};

// For memory that is promised to others: of the idle sandboxes that have some on the device and are
// not moving. By EvictionRule::kWorth, the one first whose bytes are worth least: by
// how often it is wanted, and where it must be evicted by its start and its size too. By the
// others, those of inactive flows go first, then of throttled ones, then of active ones, the least
// recently used first. In any case one that must be evicted goes after those that can be moved, one
// of min_instances after both, and one whose flow is about to be served after all others. None:
// nothing more can go now.
std::optional<MemoryVictim> memory_victim(const View& view, const Policy& policy, uint32_t device,
                                          Instant now);

// For memory that would be fetched ahead: the sandboxes, only of inactive and throttled flows,
// whose memory is moved out so that so much comes free; not of `spared`, and none of min_instances.
// None if all of them together do not make that room.
std::vector<SandboxSlot> unwanted_memory(const View& view, const Policy& policy, uint32_t device,
                                         FunctionId spared, Bytes needed, Instant now);

// MemoryRule::kMoveEarly: the one whose memory leaves next although none needs its place: of an
// inactive flow, or else of a throttled one, the least recently used. None while another is on its
// way out, or where all are of active flows.
std::optional<SandboxSlot> early_leaver(const View& view, const Policy& policy, uint32_t device,
                                        Instant now);

// For a context: one whose memory is out and whose flow is inactive gives up only the context,
// where that can be; else one is evicted, by the eviction rule. None: all contexts are at work.
std::optional<MemoryVictim> context_victim(const View& view, uint32_t device, Instant now);

}  // namespace lambent::scheduling
