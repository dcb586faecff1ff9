#include "decide/routing/hash_ring.h"

#include <algorithm>

namespace lambent::routing {

uint64_t hash_of(uint64_t number) {
  // The finalizer of splitmix64 (Steele, Lea and Flood, 2014).
  number += 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

uint64_t hash_of(std::string_view text) {
  uint64_t hash =
      0xcbf29ce484222325;  // FNV-1a, whose low bits by themselves are too even for a ring
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash_of(hash);
}

HashRing HashRing::of(const std::vector<uint64_t>& keys) {
  HashRing ring;
  ring.points_.reserve(keys.size() * kPoints);
  for (size_t node = 0; node < keys.size(); ++node) {
    ring.append(static_cast<NodeIndex>(node), keys[node]);
  }
  std::sort(ring.points_.begin(), ring.points_.end());
  return ring;
}

void HashRing::add(NodeIndex node, uint64_t key) {
  append(node, key);
  std::sort(points_.begin(), points_.end());
}

void HashRing::append(NodeIndex node, uint64_t key) {
  for (uint32_t point = 0; point < kPoints; ++point) {
    points_.push_back({hash_of(key ^ hash_of(uint64_t{point})), node});
  }
}

void HashRing::remove(NodeIndex node) {
  std::erase_if(points_, [node](const Point& point) { return point.node == node; });
}

size_t HashRing::position_of(uint64_t hash) const {
  const auto found =
      std::lower_bound(points_.begin(), points_.end(), hash,
                       [](const Point& point, uint64_t at) { return point.at < at; });
  return static_cast<size_t>(found - points_.begin());
}

}  // namespace lambent::routing
