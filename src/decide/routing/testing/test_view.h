// TestView: a cluster whose nodes a test fills in. Included by tests only; one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "decide/routing/hash_ring.h"
#include "decide/routing/node_view.h"

namespace lambent::routing {

struct TestNode {
  NodeLoad load;
  std::map<uint64_t, Warmth> warm;
  unsigned gpus = 1;
  Bytes gpu_memory = Bytes::gib(16);
};

class TestView final : public NodeView {
 public:
  explicit TestView(uint32_t nodes, uint32_t slots = 16) : nodes_(nodes) {
    for (uint32_t index = 0; index < nodes; ++index) {
      nodes_[index].load = {.slots = slots, .memory_free = Bytes::gib(16)};
      ring.add(index, hash_of("node" + std::to_string(index)));
    }
  }
  uint32_t size() const override { return static_cast<uint32_t>(nodes_.size()); }
  NodeLoad node(NodeIndex index) const override { return nodes_[index].load; }
  Warmth warmth(NodeIndex index, uint64_t function) const override {
    const auto found = nodes_[index].warm.find(function);
    return found == nodes_[index].warm.end() ? Warmth::kNone : found->second;
  }
  bool could_hold(NodeIndex index, unsigned gpus, Bytes memory) const override {
    return nodes_[index].gpus >= gpus && nodes_[index].gpu_memory >= memory;
  }
  uint64_t total_slots() const override {
    return sum([](const NodeLoad& load) { return load.slots; });
  }
  uint64_t total_load() const override {
    return sum([](const NodeLoad& load) { return load.load; });
  }
  TestNode& at(NodeIndex index) { return nodes_[index]; }

  HashRing ring;

 private:
  template <typename Of>
  uint64_t sum(Of of) const {
    uint64_t total = 0;
    for (const TestNode& each : nodes_) total += each.load.takes_work ? of(each.load) : 0;
    return total;
  }
  std::vector<TestNode> nodes_;
};

// The order of the nodes behind a function's hash.
inline std::vector<NodeIndex> order_of(const HashRing& ring, uint64_t function) {
  std::vector<NodeIndex> order;
  ring.walk(function, [&](NodeIndex node) {
    if (std::find(order.begin(), order.end(), node) == order.end()) order.push_back(node);
    return true;
  });
  return order;
}

}  // namespace lambent::routing
