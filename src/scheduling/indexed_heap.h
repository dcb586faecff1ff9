// IndexedHeap: a 4-ary heap of dense numbers that knows where each of them is, so that a key can be
// changed or taken out in place. A value; used by policies and timers on the loop thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/state_archive.h"

namespace lambent::scheduling {

// Least key first; equal keys by the lower item, so that the order is total and repeatable. No
// allocation once every item has been seen.
template <typename Key>
class IndexedHeap {
 public:
  bool empty() const { return nodes_.empty(); }
  size_t size() const { return nodes_.size(); }
  bool contains(uint32_t item) const {
    return item < position_.size() && position_[item] != kAbsent;
  }

  uint32_t top() const { return nodes_.front().item; }
  const Key& top_key() const { return nodes_.front().key; }
  // The items in no useful order; for looking at all of them.
  uint32_t item_at(size_t index) const { return nodes_[index].item; }

  // Inserts the item, or gives it another key.
  void put(uint32_t item, Key key) {
    if (item >= position_.size()) position_.resize(item + 1, kAbsent);
    size_t hole = position_[item];
    if (hole == kAbsent) {
      hole = nodes_.size();
      nodes_.emplace_back();
    }
    place(hole, Node{std::move(key), item});
  }

  void erase(uint32_t item) {
    if (!contains(item)) return;
    const size_t hole = position_[item];
    position_[item] = kAbsent;
    Node last = std::move(nodes_.back());
    nodes_.pop_back();
    if (last.item != item) place(hole, std::move(last));
  }

  uint32_t pop() {
    CHECK(!empty(), "pop of an empty heap");
    const uint32_t item = top();
    erase(item);
    return item;
  }

  // The items with their keys; `key(Key&)` archives one. The order is total, so it does not matter
  // where in the heap they lay.
  template <typename ArchiveKey>
  void archive(StateArchive& archive, ArchiveKey key) {
    const size_t size = archive.count(nodes_.size());
    if (!archive.reading()) {
      for (Node& node : nodes_) {
        archive.field(node.item);
        key(node.key);
      }
      return;
    }
    nodes_.clear();
    position_.clear();
    for (size_t i = 0; i < size && archive.ok(); ++i) {
      uint32_t item = 0;
      Key one{};
      archive.field(item);
      key(one);
      archive.expect(item < kMostArchived && !contains(item));
      if (archive.ok()) put(item, std::move(one));
    }
  }
  void archive(StateArchive& archive_to) {
    archive(archive_to, [&](Key& key) { archive_to.field(key); });
  }

 private:
  // Far more than there are functions, invocations and sandboxes: larger numbers are no items.
  static constexpr uint32_t kMostArchived = 1U << 24;

  static constexpr uint32_t kAbsent = ~uint32_t{0};
  static constexpr size_t kArity = 4;

  struct Node {
    Key key;
    uint32_t item = 0;
    bool operator<(const Node& other) const {
      if (key < other.key) return true;
      if (other.key < key) return false;
      return item < other.item;
    }
  };

  // Puts the node at the hole or where the order wants it, up or down from there.
  void place(size_t hole, Node node) {
    while (hole > 0) {
      const size_t parent = (hole - 1) / kArity;
      if (!(node < nodes_[parent])) break;
      fill(hole, std::move(nodes_[parent]));
      hole = parent;
    }
    for (;;) {
      const size_t first = hole * kArity + 1;
      if (first >= nodes_.size()) break;
      const size_t end = first + kArity < nodes_.size() ? first + kArity : nodes_.size();
      size_t least = first;
      for (size_t child = first + 1; child < end; ++child) {
        if (nodes_[child] < nodes_[least]) least = child;
      }
      if (!(nodes_[least] < node)) break;
      fill(hole, std::move(nodes_[least]));
      hole = least;
    }
    fill(hole, std::move(node));
  }

  void fill(size_t index, Node node) {
    position_[node.item] = static_cast<uint32_t>(index);
    nodes_[index] = std::move(node);
  }

  std::vector<Node> nodes_;
  std::vector<uint32_t> position_;
};

}  // namespace lambent::scheduling
