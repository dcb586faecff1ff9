#include "decide/routing/policy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>

namespace lambent::routing {
namespace {

// As many free nodes are compared for a cold invocation. With more, a function has warm sandboxes
// on more nodes.
constexpr size_t kCompared = 3;
// So many nodes are looked at on the ring until all are.
constexpr size_t kLookedAt = 16;
// Three quarters of the slots, where a GPU has two.
constexpr double kFreeRunsPerGpu = 1.5;
// A load that was counted at one moment differs from its mean by less than so many times the
// mean's root, in nineteen of twenty cases.
constexpr double kNoise = 2;

// A multiple of the work that an average node has, without dividing by zero slots.
double relative(const NodeLoad& node) { return static_cast<double>(node.load) / node.slots; }

bool serves(const NodeLoad& node, NodeIndex index, const RouteRequest& request,
            const NodeView& view) {
  return node.takes_work &&
         (request.gpus == 0 || view.could_hold(index, request.gpus, request.memory));
}

// The least load for its slots; of equal ones the first from a drawn place on, so that nodes which
// all know the same do not all choose the same.
std::optional<Route> least_loaded(const RouteRequest& request, const NodeView& view) {
  std::optional<Route> best;
  double least = 0;
  const uint32_t nodes = view.size();
  const uint32_t start = nodes == 0 ? 0 : static_cast<uint32_t>(request.draw % nodes);
  for (uint32_t step = 0; step < nodes; ++step) {
    const NodeIndex index = start + step < nodes ? start + step : start + step - nodes;
    const NodeLoad node = view.node(index);
    if (!serves(node, index, request, view)) continue;
    if (best && relative(node) >= least) continue;
    best = Route{index, RouteReason::kLeastLoaded};
    least = relative(node);
  }
  return best;
}

class LeastLoaded final : public Policy {
 public:
  std::optional<Route> choose(const RouteRequest& request, const HashRing&,
                              const NodeView& view) const override {
    return least_loaded(request, view);
  }
};

// Of nodes that can serve it, one from a drawn place on.
std::optional<NodeIndex> drawn(uint64_t draw, const RouteRequest& request, const NodeView& view) {
  const uint32_t nodes = view.size();
  for (uint32_t step = 0; step < nodes; ++step) {
    const auto index = static_cast<NodeIndex>((draw + step) % nodes);
    if (serves(view.node(index), index, request, view)) return index;
  }
  return std::nullopt;
}

class RandomNode final : public Policy {
 public:
  std::optional<Route> choose(const RouteRequest& request, const HashRing&,
                              const NodeView& view) const override {
    const auto node = drawn(request.draw, request, view);
    if (!node) return std::nullopt;
    return Route{*node, RouteReason::kRandom};
  }
};

// The less loaded of two drawn ones (Mitzenmacher, 1996).
class TwoChoices final : public Policy {
 public:
  std::optional<Route> choose(const RouteRequest& request, const HashRing&,
                              const NodeView& view) const override {
    const auto one = drawn(request.draw >> 32, request, view);
    const auto other = drawn(hash_of(request.draw) >> 32, request, view);
    if (!one || !other) return std::nullopt;
    const bool first = relative(view.node(*one)) <= relative(view.node(*other));
    return Route{first ? *one : *other, RouteReason::kLeastLoaded};
  }
};

// Consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2018). A warm node
// comes first, then the function's own by the ring, while they are free. Where none is, work is
// spread: reports are older than the decisions of the other nodes, which all have the same ones.
class BoundedHash final : public Policy {
 public:
  explicit BoundedHash(const PolicyOptions& options) : options_(options) {}

  std::optional<Route> choose(const RouteRequest& request, const HashRing& ring,
                              const NodeView& view) const override {
    const Totals totals{view.total_slots(), view.total_load()};
    // The entry node saves the way by running it, where nothing is to be started.
    if (is_resident_here(request, view, totals)) return Route{request.entry, RouteReason::kWarm};
    const Candidates found = candidates(request, ring, view, totals);
    if (found.count == 0) return least_loaded(request, view);
    const Warmth warmest = std::ranges::max(found.all(), {}, &Candidate::warmth).warmth;
    if (warmest > Warmth::kFetched) return route_of(drawn_of(found, warmest, request.draw), found);
    const Candidate* free = best_free(found);
    const bool brings_files = free != nullptr && free->warmth == Warmth::kAbsent;
    if (free != nullptr && (!brings_files || warmest == Warmth::kAbsent)) {
      return route_of(*free, found);
    }
    const Candidate* here = not_busier_here(request, view, totals, found, warmest);
    return route_of(here != nullptr ? *here : drawn_of(found, warmest, request.draw), found);
  }

 private:
  struct Candidate {
    NodeIndex node = 0;
    Warmth warmth = Warmth::kNone;
    bool has_memory = false;
    bool is_free = false;
  };
  // Nodes that are not full, in the order of the ring.
  struct Candidates {
    std::array<Candidate, kLookedAt> at;
    size_t count = 0;
    bool passed_full = false;  // one before the first has too much work

    std::span<const Candidate> all() const { return {at.data(), count}; }
  };

  struct Totals {
    uint64_t slots = 0;
    uint64_t load = 0;
  };

  bool has_room(const NodeLoad& node, const RouteRequest& request, const Totals& totals) const {
    return node.takes_work &&
           node.load < bound_of(options_, node, request, totals.slots, totals.load);
  }

  // An idle sandbox behind a queue is none.
  Warmth warmth_of(const RouteRequest& request, const NodeView& view, NodeIndex index,
                   const NodeLoad& node) const {
    Warmth warmth = view.warmth(index, request.function);
    if (node.load >= node.slots) warmth = std::min(warmth, Warmth::kFetched);
    return warmth == Warmth::kFetched && !options_.regards_fetched ? Warmth::kNone : warmth;
  }

  bool is_resident_here(const RouteRequest& request, const NodeView& view,
                        const Totals& totals) const {
    if (request.entry >= view.size()) return false;
    const NodeLoad node = view.node(request.entry);
    return has_room(node, request, totals) &&
           warmth_of(request, view, request.entry, node) == Warmth::kResident;
  }

  Candidates candidates(const RouteRequest& request, const HashRing& ring, const NodeView& view,
                        const Totals& totals) const {
    Candidates found;
    std::array<NodeIndex, kLookedAt> seen{};
    size_t looked_at = 0;
    ring.walk(request.function, [&](NodeIndex index) {
      const auto end = seen.begin() + static_cast<ptrdiff_t>(looked_at);
      if (std::find(seen.begin(), end, index) != end) return true;
      seen[looked_at++] = index;
      const NodeLoad node = view.node(index);
      if (!serves(node, index, request, view)) {
        // It counts as looked at, and as nothing else.
      } else if (has_room(node, request, totals)) {
        found.at[found.count++] = {index, warmth_of(request, view, index, node),
                                   node.memory_free >= request.memory,
                                   node.load < free_bound_of(options_, node, request)};
      } else if (found.count == 0) {
        found.passed_full = true;
      }
      return looked_at < std::min<size_t>(kLookedAt, view.size());
    });
    return found;
  }

  // For what takes no GPU, the entry node where it is as good as the others and has no more to do
  // than the average: a way more would take of the processors that it waits for. Its own load is
  // exact. Null: another. Beside a run on a GPU the way is nothing, and chance spreads better.
  static const Candidate* not_busier_here(const RouteRequest& request, const NodeView& view,
                                          const Totals& totals, const Candidates& found,
                                          Warmth warmest) {
    if (request.memory > Bytes()) return nullptr;
    const auto here = std::ranges::find(found.all(), request.entry, &Candidate::node);
    if (here == found.all().end() || here->warmth != warmest) return nullptr;
    const NodeLoad node = view.node(request.entry);
    const bool is_busier = node.load * totals.slots > totals.load * node.slots;
    return is_busier ? nullptr : &*here;
  }

  // Of those that are as warm, one by chance; of those with memory for it, where there are such.
  static const Candidate& drawn_of(const Candidates& found, Warmth warmth, uint64_t draw) {
    const auto count = [&](bool has_memory) {
      return static_cast<uint64_t>(std::ranges::count_if(found.all(), [&](const Candidate& each) {
        return each.warmth == warmth && each.has_memory == has_memory;
      }));
    };
    const bool has_memory = is_warm(warmth) || count(true) > 0;
    const uint64_t all = is_warm(warmth) ? count(true) + count(false) : count(has_memory);
    uint64_t passes = draw % all;
    for (const Candidate& each : found.all()) {
      if (each.warmth != warmth) continue;
      if (!is_warm(warmth) && each.has_memory != has_memory) continue;
      if (passes-- == 0) return each;
    }
    return found.at[0];
  }
  static bool is_warm(Warmth warmth) { return warmth > Warmth::kFetched; }

  // Of the first free ones, none of which is warm; null: there is none. Behind those that all lack
  // its files, the first that has them counts too.
  static const Candidate* best_free(const Candidates& found) {
    const Candidate* best = nullptr;
    size_t compared = 0;
    for (const Candidate& each : found.all()) {
      if (!each.is_free) continue;
      if (compared++ >= kCompared && best->warmth != Warmth::kAbsent) break;
      if (best == nullptr || is_better(each, *best)) best = &each;
    }
    return best;
  }

  // `a` stands behind `b` on the ring.
  static bool is_better(const Candidate& a, const Candidate& b) {
    // To bring files from another node takes longest.
    const bool a_lacks = a.warmth == Warmth::kAbsent;
    if (a_lacks != (b.warmth == Warmth::kAbsent)) return !a_lacks;
    // To wait for memory takes longer than to fetch.
    if (a.has_memory != b.has_memory) return a.has_memory;
    return a.warmth > b.warmth;
  }

  static Route route_of(const Candidate& chosen, const Candidates& found) {
    return {chosen.node, reason_of(chosen, found)};
  }
  static RouteReason reason_of(const Candidate& node, const Candidates& found) {
    if (is_warm(node.warmth)) return RouteReason::kWarm;
    const Candidate& first = found.at[0];
    if (first.warmth == Warmth::kAbsent && node.warmth != Warmth::kAbsent) {
      return RouteReason::kFetched;
    }
    if (node.has_memory && !first.has_memory) return RouteReason::kMemory;
    if (node.warmth == Warmth::kFetched) return RouteReason::kFetched;
    const bool is_first = node.node == first.node && !found.passed_full;
    return is_first ? RouteReason::kPreferred : RouteReason::kOverflow;
  }

  const PolicyOptions options_;
};

}  // namespace

std::string_view name_of(RouteReason reason) {
  switch (reason) {
    case RouteReason::kWarm:
      return "warm";
    case RouteReason::kFetched:
      return "fetched";
    case RouteReason::kPreferred:
      return "preferred";
    case RouteReason::kMemory:
      return "memory";
    case RouteReason::kOverflow:
      return "overflow";
    case RouteReason::kLeastLoaded:
      return "least_loaded";
    case RouteReason::kRandom:
      return "random";
  }
  return "unknown";
}

uint64_t free_bound_of(const PolicyOptions& options, const NodeLoad& node,
                       const RouteRequest& request) {
  double most = options.free_share * node.slots;
  // Runs that share a GPU slow each other down, however many the node takes.
  const bool shares_gpus = request.memory > Bytes() && node.gpus > 0;
  if (shares_gpus) most = std::min(most, kFreeRunsPerGpu * node.gpus);
  return static_cast<uint64_t>(std::max(std::ceil(most), 1.0));
}

uint64_t bound_of(const PolicyOptions& options, const NodeLoad& node, const RouteRequest& request,
                  uint64_t total_slots, uint64_t total_load) {
  // With the invocation that is to be placed: otherwise an idle cluster had room for nothing.
  const double average = static_cast<double>(total_load + 1) /
                         static_cast<double>(std::max<uint64_t>(total_slots, 1)) * node.slots;
  const double most = std::max(options.bound * average, average + kNoise * std::sqrt(average));
  return std::max(free_bound_of(options, node, request), static_cast<uint64_t>(std::ceil(most)));
}

std::span<const std::string_view> policy_names() {
  static constexpr std::string_view kNames[] = {"bounded-hash", "least-loaded", "two-choices",
                                                "random"};
  return kNames;
}

Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyOptions& options) {
  if (options.bound <= 1 || options.free_share < 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "the bound of a node's load must be above 1, and its free share not below 0"};
  }
  std::unique_ptr<Policy> policy;
  if (name == "bounded-hash") policy = std::make_unique<BoundedHash>(options);
  if (name == "least-loaded") policy = std::make_unique<LeastLoaded>();
  if (name == "two-choices") policy = std::make_unique<TwoChoices>();
  if (name == "random") policy = std::make_unique<RandomNode>();
  if (policy) return policy;
  std::string known;
  for (const std::string_view each : policy_names()) {
    known += (known.empty() ? "" : ", ") + std::string(each);
  }
  return Error{ErrorCode::kInvalidArgument,
               "there is no routing policy '" + std::string(name) + "'; there are " + known};
}

}  // namespace lambent::routing
