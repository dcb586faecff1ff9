// What of a graph must be done before what, and where its buffers lie: what an executor needs to
// run steps at the same time and to know the memory before. Pure functions over a valid graph; any
// thread.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/units.h"
#include "decide/kernel_graph/graph.h"

namespace lambent::kernel_graph {

// Every buffer begins at a multiple of this.
constexpr Bytes kBufferAlignment = Bytes(256);

// Which steps of one list wait for which. Two that are not ordered, directly or through others,
// may run at the same time or in any order.
struct StepOrder {
  // For each step: the earlier ones (indices in the same list) that must have ended, ascending,
  // none of them implied by another.
  std::vector<std::vector<uint32_t>> after;
  // For each step: the order within it if it is a repeat; empty for a launch. It holds for each
  // round; a round begins when the one before has ended, so nothing is said across rounds.
  std::vector<StepOrder> inside;

  bool operator==(const StepOrder&) const = default;
};

// A step waits for an earlier one if they touch the same buffer, at whatever offsets, and one of
// them writes. A repeat counts as one step that does whatever its steps do and writes its flag.
StepOrder order_of(const std::vector<Step>& steps);

struct MemoryPlan {
  // Of each buffer, by its index: its bytes, not rounded.
  std::vector<Bytes> sizes;
  // Of each temporary, by its buffer's index: where it begins in the block of temporaries. Those
  // share memory of which one is used by no step before the other's last one has ended, in any
  // order that order_of() allows. A buffer that is used in a repeat is used for all of its rounds.
  // Each variant is planned by itself, over the same memory.
  // Zero for buffers that are not temporaries, and for those that no step uses.
  std::vector<Bytes> offsets;
  // Each buffer rounded up to kBufferAlignment.
  Bytes constants;
  Bytes inputs;
  Bytes outputs;  // and in_out buffers
  // The block of temporaries.
  Bytes temporaries;
  // All of it: what a request needs on the device.
  Bytes footprint;

  bool operator==(const MemoryPlan&) const = default;
};

// The graph is valid, and `order` is that of its steps.
MemoryPlan plan_memory(const KernelGraph& graph, const StepOrder& order);

}  // namespace lambent::kernel_graph
