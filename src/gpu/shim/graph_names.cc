#include "gpu/shim/graph_names.h"

#include <stdlib.h>

#include <new>

namespace lambent::shim {
namespace {

constexpr size_t kFirstCapacity = 16;

NodeNames* names_of(const Entry& entry) { return reinterpret_cast<NodeNames*>(entry.target); }

void destroy(const Entry& entry) {
  NodeNames* names = names_of(entry);
  if (names == nullptr) return;
  names->~NodeNames();
  free(names);
}

}  // namespace

NodeNames::~NodeNames() { free(names_); }

void NodeNames::add(const NodeName& name) {
  looked_up_at = 0;
  if (count_ == capacity_) {
    const size_t capacity = capacity_ == 0 ? kFirstCapacity : 2 * capacity_;
    void* more = realloc(names_, capacity * sizeof(NodeName));
    if (more == nullptr) {
      is_short_ = true;
      return;
    }
    names_ = static_cast<NodeName*>(more);
    capacity_ = capacity;
  }
  names_[count_++] = name;
  ++of(name.by);
}

Handle NodeNames::top_of(Handle node) const {
  for (const NodeName& name : *this) {
    if (name.node == node) return name.top;
  }
  return node;
}

void NodeNames::replace(Handle node, const NodeNames& names) {
  const Handle top = top_of(node);
  size_t kept = 0;
  for (size_t i = 0; i < count_; ++i) {
    const bool goes = names_[i].node == node || names_[i].top == node;
    if (goes) --of(names_[i].by);
    if (!goes) names_[kept++] = names_[i];
  }
  count_ = kept;
  looked_up_at = 0;
  is_short_ |= names.is_short_;
  for (NodeName name : names) {
    name.top = top;
    add(name);
  }
}

void NodeNames::take(NodeNames& names) {
  free(names_);
  names_ = names.names_;
  count_ = names.count_;
  capacity_ = names.capacity_;
  for (size_t way = 0; way < kWays; ++way) count_by_[way] = names.count_by_[way];
  is_short_ = names.is_short_;
  looked_up_at = 0;
  names.names_ = nullptr;
  names.count_ = 0;
  names.capacity_ = 0;
}

GraphNames::~GraphNames() {
  table_.remove_if([](const Entry&) { return true; }, destroy);
}

void GraphNames::set(Handle graph, NodeNames& names) {
  NodeNames* kept = find(graph);
  if (kept != nullptr) return kept->take(names);
  void* memory = malloc(sizeof(NodeNames));
  if (memory == nullptr) return;
  kept = new (memory) NodeNames;
  kept->take(names);
  Entry entry;
  entry.kind = Kind::kExecutableGraph;
  entry.key = reinterpret_cast<uint64_t>(graph);
  entry.target = reinterpret_cast<uint64_t>(kept);
  if (!table_.insert(entry)) destroy(entry);
}

NodeNames* GraphNames::find(Handle graph) {
  const Entry* entry = table_.find(Kind::kExecutableGraph, reinterpret_cast<uint64_t>(graph));
  return entry == nullptr ? nullptr : names_of(*entry);
}

void GraphNames::forget(Handle graph) {
  destroy(table_.remove(Kind::kExecutableGraph, reinterpret_cast<uint64_t>(graph)));
}

}  // namespace lambent::shim
