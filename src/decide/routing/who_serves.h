// Who of a cluster serves a function that not every node can, by what nodes say of themselves: for
// requests, and for what a lost node had. Pure; used by node/cluster on the loop thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "decide/routing/node_view.h"

namespace lambent::routing {

// What is known of one node and such a function.
enum class Serving {
  kCannot,
  kNotYet,   // it has slices or GPUs, and does not say so: it may not have the function yet
  kUnknown,  // nothing was heard of it, or its program does not say
  kLater,    // with what it has lost of its devices, once that is back
  kCan,
};

// The nodes that requests go to: those that can. Where there are none, as of a function that was
// deployed a moment ago, those that may. Where there are none either, those that wait for what they
// have lost, and let requests wait.
std::vector<bool> serving_nodes(const std::vector<Serving>& nodes);

// One node, and whether it answers.
struct Candidate {
  Serving serving = Serving::kUnknown;
  bool answers = false;
};

// Who runs what a lost node had: `self`, which asks, if it can; else one that can and answers, by
// `draw`. Nothing: it waits, since one that does not answer, or has lost devices, may be back, or
// one may not have the function yet.
// Where no node could run it, `self` as well, which refuses it with what is missing.
std::optional<NodeIndex> taker_of(const std::vector<Candidate>& nodes, NodeIndex self,
                                  uint64_t draw);

}  // namespace lambent::routing
