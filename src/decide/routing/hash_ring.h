// HashRing: nodes on a ring of hashes, each at many points (consistent hashing; Karger et al.,
// 1997). A function's nodes are those that follow its hash. A node that comes takes functions only
// from others to itself, and one that goes leaves all others' in place. A value; one thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "decide/routing/node_view.h"

namespace lambent::routing {

// The same on every machine: nodes have to agree where a function belongs.
uint64_t hash_of(std::string_view text);
uint64_t hash_of(uint64_t number);

class HashRing {
 public:
  // More make shares more even (by some 1/sqrt(kPoints)) and take 16 bytes each.
  static constexpr uint32_t kPoints = 64;

  // Of the nodes with these keys, each of which has its place in the list as its index.
  static HashRing of(const std::vector<uint64_t>& keys);
  // `key` is the hash of the node's name, so that its points do not depend on its index. A node is
  // added at most once.
  void add(NodeIndex node, uint64_t key);
  void remove(NodeIndex node);
  bool empty() const { return points_.empty(); }

  // Calls `visit(node)` for the points from `hash` on, at most once round; a node may come several
  // times. Ends when `visit` returns false.
  template <typename Visit>
  void walk(uint64_t hash, Visit visit) const {
    const size_t start = position_of(hash);
    for (size_t step = 0; step < points_.size(); ++step) {
      if (!visit(points_[(start + step) % points_.size()].node)) return;
    }
  }

 private:
  struct Point {
    uint64_t at;
    NodeIndex node;
    auto operator<=>(const Point&) const = default;
  };
  void append(NodeIndex node, uint64_t key);
  size_t position_of(uint64_t hash) const;

  std::vector<Point> points_;  // sorted
};

}  // namespace lambent::routing
