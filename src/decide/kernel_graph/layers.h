// A graph in layers: runs of its steps, one after the other, between which the memory of its
// temporaries changes enough for some to come and some to go. Pure functions over a valid graph;
// any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "core/domain/memory_profile.h"
#include "decide/kernel_graph/graph.h"
#include "decide/kernel_graph/plan.h"

namespace lambent::kernel_graph {

// More cost the host more, one graph and one call back each, than their memory is worth.
constexpr size_t kMostLayers = 16;

struct Layer {
  uint32_t begin = 0;           // the first of its steps; it ends where the next one begins
  std::vector<uint32_t> pages;  // of the block of temporaries that its steps need, ascending

  bool operator==(const Layer&) const = default;
};

struct LayerPlan {
  Bytes page;
  uint32_t pages = 0;  // that the block of temporaries has
  std::vector<Layer> layers;

  // Whether memory comes or goes at all.
  bool changes() const { return layers.size() > 1; }
  bool operator==(const LayerPlan&) const = default;
};

// A page of the block that `plan` lays out is needed from the first step that uses a buffer on it
// to the last, in the order of the list, and not in between two buffers. A repeat is one step.
// Layers are as long as what they have and some of their steps do not need stays small: one page or
// an eighth of the most that any step needs, more where there would be more than kMostLayers.
LayerPlan plan_layers(const KernelGraph& graph, const MemoryPlan& plan, Bytes page);

// The memory of temporaries, layer by layer, when that of the next one comes while one runs; with
// durations of zero, for those are learnt.
MemoryProfile profile_of(const LayerPlan& plan);

}  // namespace lambent::kernel_graph
