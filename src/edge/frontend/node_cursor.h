// NodeCursor: a reader's place in what the nodes of a cluster have, as it is told to clients and
// comes back. A value; any thread. Fuzzed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace lambent::frontend {

// How far a reader has come at each node, by numbers such as offsets of a log: "0" is the beginning
// of all, "17" the place on the node that is asked, "a:17,b:0" those of nodes by name.
class NodeCursor {
 public:
  NodeCursor() = default;
  // INVALID_ARGUMENT: it is none; who asks says what it is to be.
  static Result<NodeCursor> parse(std::string_view text);

  // Which node is asked: from now on its place is under this name, whatever it was under before.
  void name_own(const std::string& node);
  uint64_t offset_at(const std::string& node) const;
  void set(const std::string& node, uint64_t offset) { offsets_[node] = offset; }
  bool empty() const { return offsets_.empty(); }
  // Only a number: it says nothing of other nodes.
  bool is_unnamed() const { return offsets_.contains(""); }
  bool operator==(const NodeCursor&) const = default;
  // An empty name is the only node.
  std::string text() const;
  // The same, but a number where no node but this has a place.
  std::string text_for(const std::string& only_node) const;

 private:
  // An empty name: of the node that is asked.
  std::map<std::string, uint64_t> offsets_;
};

}  // namespace lambent::frontend
