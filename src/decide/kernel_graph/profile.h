// When each buffer of a graph is used and how often, and from that the memory that a request needs
// over time. Pure functions over a valid graph; any thread.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/domain/memory_profile.h"
#include "decide/kernel_graph/graph.h"

namespace lambent::kernel_graph {

struct BufferUse {
  // Indices in the graph's list of steps; a repeat is one step, for what it uses is used in all of
  // its rounds.
  uint32_t first = 0;
  uint32_t last = 0;
  // How many launches of a request touch it, rounds counted (saturating), and of variants all; 0:
  // no launch does, and `first` and `last` mean nothing. None: a repeat with a flag decides it
  // while it runs.
  std::optional<uint64_t> accesses = 0;

  bool operator==(const BufferUse&) const = default;
};

// Of each buffer, by its index.
std::vector<BufferUse> uses_of(const KernelGraph& graph);

// Whether constants count: they are shared by all requests and mostly stay.
enum class CountConstants : uint8_t {
  kNo,         // they are accounted for elsewhere
  kWhileUsed,  // each comes for its first launch and goes after its last, like a temporary
  kAllTheTime,
};

// The profile of a request that runs the steps one after the other, each taking its duration of
// `step_durations` (a repeat: all rounds together; as many as there are steps). Inputs come with
// their first use and go with their last; outputs stay until the end. Buffers are rounded up to
// kBufferAlignment. Steps that run side by side may need more at a time than this says, though
// never more than plan_memory()'s footprint.
MemoryProfile profile_of(const KernelGraph& graph, std::span<const Duration> step_durations,
                         CountConstants constants);

}  // namespace lambent::kernel_graph
