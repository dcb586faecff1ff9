// Policy: which node runs an invocation. Pure: the same view, request and draw give the same node.
// Used by node/cluster on the loop thread, and by the simulator.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "core/base/result.h"
#include "decide/routing/hash_ring.h"
#include "decide/routing/node_view.h"

namespace lambent::routing {

constexpr std::string_view kDefaultPolicy = "bounded-hash";

struct RouteRequest {
  uint64_t function = 0;  // the hash of its tenant and name
  Bytes memory;           // that it needs on a GPU, on each of several
  unsigned gpus = 0;      // without which no node can run it; 0: it can do without
  NodeIndex entry = 0;    // the node that the request reached
  uint64_t draw = 0;      // a random number
};

// Why a node was chosen; the words are those of the metric.
enum class RouteReason {
  kWarm,         // it has an idle sandbox
  kFetched,      // it has no idle sandbox, but what starts one sooner
  kPreferred,    // it is the function's, by the ring
  kMemory,       // the function's first node has too little free memory, this one has enough
  kOverflow,     // those before it on the ring have too much work
  kLeastLoaded,  // it has the least
  kRandom,
};
std::string_view name_of(RouteReason reason);

struct Route {
  NodeIndex node = 0;
  RouteReason reason = RouteReason::kPreferred;
  bool operator==(const Route&) const = default;
};

class Policy {
 public:
  virtual ~Policy() = default;
  // Never a node that has not the request's GPUs. Nothing if no node that has takes work. The ring
  // has the nodes of the view.
  virtual std::optional<Route> choose(const RouteRequest& request, const HashRing& ring,
                                      const NodeView& view) const = 0;
};

struct PolicyOptions {
  // A node is free while its load is below `free_share` of its slots and, of what takes a GPU, not
  // much above one run for each GPU. It is full if it is not free and its load reaches this many
  // times the average for its slots, and more than chance explains. More than 1.
  double bound = 1.25;
  double free_share = 0.75;
  // Whether a node where the function ran lately is better than one where it did not.
  bool regards_fetched = true;
};

// "bounded-hash", "least-loaded", "two-choices" or "random"; INVALID_ARGUMENT names them.
Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyOptions& options);
std::span<const std::string_view> policy_names();

// From how much work on a node no longer counts as free for the request, and from how much it
// counts as full; at least 1.
uint64_t free_bound_of(const PolicyOptions& options, const NodeLoad& node,
                       const RouteRequest& request);
uint64_t bound_of(const PolicyOptions& options, const NodeLoad& node, const RouteRequest& request,
                  uint64_t total_slots, uint64_t total_load);

}  // namespace lambent::routing
