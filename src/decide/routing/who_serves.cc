#include "decide/routing/who_serves.h"

#include <algorithm>

namespace lambent::routing {
namespace {

// The higher, the sooner a request goes there; 0: never.
int rank_of(Serving serving) {
  switch (serving) {
    case Serving::kCan:
      return 3;
    case Serving::kNotYet:
    case Serving::kUnknown:
      return 2;
    case Serving::kLater:
      return 1;
    case Serving::kCannot:
      return 0;
  }
  return 0;
}

// One of those of which `may` is true; nothing: there are none.
template <typename May>
std::optional<NodeIndex> one_of(const std::vector<Candidate>& nodes, uint64_t draw, May may) {
  std::vector<NodeIndex> all;
  for (NodeIndex node = 0; node < nodes.size(); ++node) {
    if (may(nodes[node])) all.push_back(node);
  }
  if (all.empty()) return std::nullopt;
  return all[draw % all.size()];
}

}  // namespace

std::vector<bool> serving_nodes(const std::vector<Serving>& nodes) {
  int best = 1;
  for (const Serving node : nodes) best = std::max(best, rank_of(node));
  std::vector<bool> go;
  for (const Serving node : nodes) go.push_back(rank_of(node) == best);
  return go;
}

std::optional<NodeIndex> taker_of(const std::vector<Candidate>& nodes, NodeIndex self,
                                  uint64_t draw) {
  if (nodes[self].serving == Serving::kCan) return self;
  const auto able = one_of(nodes, draw, [](const Candidate& node) {
    return node.answers && node.serving == Serving::kCan;
  });
  if (able) return able;
  const bool may_come = std::ranges::any_of(nodes, [](const Candidate& node) {
    const bool could = node.serving == Serving::kCan || node.serving == Serving::kUnknown;
    const bool may_later = node.serving == Serving::kLater || node.serving == Serving::kNotYet;
    return may_later || (could && !node.answers);
  });
  if (may_come) return std::nullopt;
  // A program that does not say what it can do knows better than this one that cannot.
  const auto unknown = one_of(nodes, draw, [](const Candidate& node) {
    return node.answers && node.serving == Serving::kUnknown;
  });
  return unknown.value_or(self);
}

}  // namespace lambent::routing
