// GraphNames: what the nodes of each executable graph name of memory, kept from its instantiation
// on. Decides nothing, calls no driver. Not synchronised; without the C++ library.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "gpu/shim/handle_table.h"
#include "gpu/shim/passed_types.h"

namespace lambent::shim {

// How a node names memory.
enum class NamedBy : uint32_t {
  kKernel,    // among its parameters: the launch waits until it was fetched
  kCopy,      // a copy or a fill, which works on it where it is
  kUpload,    // a copy of `bytes` from the host: there may be addresses in what it brings
  kAnything,  // it is not known what the node reaches
};

struct NodeName {
  Handle node = nullptr;  // whose parameters say so
  Handle top = nullptr;   // the node of the graph itself: this one, or the child that it lies in
  NamedBy by = NamedBy::kAnything;
  Address address = 0;
  uint64_t bytes = 0;  // kUpload
};

// What the nodes of one graph name, or one node of it. If there is no memory to keep a name in, it
// is not known what the graph reaches.
class NodeNames {
 public:
  NodeNames() = default;
  ~NodeNames();
  NodeNames(const NodeNames&) = delete;
  NodeNames& operator=(const NodeNames&) = delete;

  void add(const NodeName& name);
  // In place of what the node, or what lies in it, named: all of these.
  void replace(Handle node, const NodeNames& names);
  // In place of everything.
  void take(NodeNames& names);

  bool has_unknown() const { return of(NamedBy::kAnything) > 0 || is_short_; }
  bool has_uploads() const { return of(NamedBy::kUpload) > 0; }
  const NodeName* begin() const { return names_; }
  const NodeName* end() const { return names_ + count_; }

  // What a launch of the graph remembers of it: when all that it names was last looked up.
  // Zero after every change.
  uint64_t looked_up_at = 0;

 private:
  static constexpr size_t kWays = 4;

  size_t of(NamedBy by) const { return count_by_[static_cast<size_t>(by)]; }
  size_t& of(NamedBy by) { return count_by_[static_cast<size_t>(by)]; }
  Handle top_of(Handle node) const;

  NodeName* names_ = nullptr;
  size_t count_ = 0;
  size_t capacity_ = 0;
  size_t count_by_[kWays] = {};
  bool is_short_ = false;
};

// The names by the executable graph.
class GraphNames {
 public:
  GraphNames() = default;
  ~GraphNames();
  GraphNames(const GraphNames&) = delete;
  GraphNames& operator=(const GraphNames&) = delete;

  // In place of what was known of the graph; takes the names. A graph for which there is no memory
  // is not known.
  void set(Handle graph, NodeNames& names);
  // Null: nothing is known of it. Until the next call of this object.
  NodeNames* find(Handle graph);
  void forget(Handle graph);
  size_t size() const { return table_.size(); }

 private:
  HandleTable table_;
};

}  // namespace lambent::shim
