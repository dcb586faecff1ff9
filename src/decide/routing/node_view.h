// NodeView: what the choice of a node sees: the nodes' loads, and what of a function is warm where.
// Implemented by node/cluster, the simulator and tests. Any thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/units.h"

namespace lambent::routing {

// A node's place in the view; the same as long as the node is a member.
using NodeIndex = uint32_t;

struct NodeLoad {
  bool takes_work = true;  // false: it is drained, lost or unknown
  uint32_t slots = 1;      // invocations that it can run at once; at least 1
  uint32_t load = 0;       // invocations that it runs or that wait there
  Bytes memory_free;       // on its GPUs, with what idle sandboxes hold
  uint32_t gpus = 0;       // on which functions take turns
};

// The load of another node, of which its report is some time old: with what was sent there since.
// Sent, both times: what has no answer yet.
inline uint32_t load_since(uint32_t reported, uint32_t sent_then, uint32_t sent_now) {
  return std::max(reported + (sent_now > sent_then ? sent_now - sent_then : 0), sent_now);
}

// The best that a node has of a function for one more invocation.
enum class Warmth {
  kAbsent,      // nothing, and files that it mounts would come from another node first
  kNone,        // nothing
  kFetched,     // no idle sandbox; it ran here lately: its packages and weights are in host memory
  kSwappedOut,  // its GPU memory is in the host's
  kResident,    // its GPU memory is in place, or it has none
};

class NodeView {
 public:
  virtual ~NodeView() = default;
  virtual uint32_t size() const = 0;  // indices are below it
  virtual NodeLoad node(NodeIndex index) const = 0;
  virtual Warmth warmth(NodeIndex index, uint64_t function) const = 0;
  // Whether the node has so many GPUs with so much memory each, whatever is on them. What was lost
  // does not count.
  virtual bool could_hold(NodeIndex /*index*/, unsigned /*gpus*/, Bytes /*memory*/) const {
    return true;
  }
  // Of the nodes that take work.
  virtual uint64_t total_slots() const = 0;
  virtual uint64_t total_load() const = 0;
};

}  // namespace lambent::routing
