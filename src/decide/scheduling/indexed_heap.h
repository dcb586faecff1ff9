// IndexedHeap: a 4-ary heap of dense numbers that knows where each of them is, so that a key can be
// changed or taken out in place. A value; used by policies and timers on the loop thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/state_archive.h"
#include "decide/scheduling/by_item.h"

namespace lambent::scheduling {

// Far more than there are functions, invocations and sandboxes: larger numbers are no items.
constexpr uint32_t kMostArchivedItem = 1U << 24;

// Where in its heap each item is.
using HeapPositions = std::vector<uint32_t>;

// Least key first; equal keys by the lower item, so that the order is total and repeatable. No
// allocation once every item has been seen. kShared: the positions are those of several heaps, of
// which an item is in one at most.
template <typename Key, bool kShared = false>
class IndexedHeap {
 public:
  IndexedHeap() requires(!kShared) = default;
  // They outlive it.
  explicit IndexedHeap(HeapPositions& shared) requires kShared : by_item_(shared) {}

  bool empty() const { return nodes_.empty(); }
  size_t size() const { return nodes_.size(); }
  bool contains(uint32_t item) const {
    const HeapPositions& position = by_item_.all();
    return item < position.size() && is_at(position[item], item);
  }

  uint32_t top() const { return nodes_.front().item; }
  const Key& top_key() const { return nodes_.front().key; }
  // Of an item that is contained.
  const Key& key_of(uint32_t item) const { return nodes_[by_item_.all()[item]].key; }
  // The items in no useful order; for looking at all of them.
  uint32_t item_at(size_t index) const { return nodes_[index].item; }
  // Whether one comes before another, by their places in the heap. The children of i, none of whom
  // comes before it, are kArity from i * kArity + 1 on.
  bool is_before(size_t one, size_t other) const { return nodes_[one] < nodes_[other]; }
  static constexpr size_t kArity = 4;  // least_from() knows it

  // Inserts the item, or gives it another key.
  void put(uint32_t item, Key key) {
    HeapPositions& position = by_item_.all();
    if (item >= position.size()) position.resize(item + 1, kAbsent);
    size_t hole = position[item];
    if (!is_at(position[item], item)) {
      hole = nodes_.size();
      nodes_.emplace_back();
    } else if (nodes_[hole].key == key) {
      return;
    }
    place(hole, Node{std::move(key), item});
  }

  void erase(uint32_t item) {
    if (!contains(item)) return;
    const size_t hole = by_item_.all()[item];
    by_item_.all()[item] = kAbsent;
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
    for (const Node& node : nodes_) by_item_.all()[node.item] = kAbsent;
    nodes_.clear();
    for (size_t i = 0; i < size && archive.ok(); ++i) {
      uint32_t item = 0;
      Key one{};
      archive.field(item);
      key(one);
      archive.expect(item < kMostArchivedItem && is_free(item));
      if (archive.ok()) put(item, std::move(one));
    }
  }
  void archive(StateArchive& archive_to) {
    archive(archive_to, [&](Key& key) { archive_to.field(key); });
  }

 private:
  static constexpr uint32_t kAbsent = ~uint32_t{0};

  struct Node {
    Key key;
    uint32_t item = 0;
    // Without branches, as which of two is less cannot be foreseen.
    bool operator<(const Node& other) const {
      const auto less = static_cast<unsigned>(key < other.key);
      const auto more = static_cast<unsigned>(other.key < key);
      return static_cast<unsigned>(item < other.item) + 2 * less > 2 * more;
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
      const size_t least = least_from(first);
      if (!(nodes_[least] < node)) break;
      fill(hole, std::move(nodes_[least]));
      hole = least;
    }
    fill(hole, std::move(node));
  }

  // The least of the children that begin there.
  size_t least_from(size_t first) const {
    if (first + kArity <= nodes_.size()) {
      const size_t left = less_of(first, first + 1);
      const size_t right = less_of(first + 2, first + 3);
      return less_of(left, right);
    }
    size_t least = first;
    for (size_t child = first + 1; child < nodes_.size(); ++child) least = less_of(least, child);
    return least;
  }

  size_t less_of(size_t one, size_t other) const {
    return one + (other - one) * static_cast<size_t>(nodes_[other] < nodes_[one]);
  }

  void fill(size_t index, Node node) {
    by_item_.all()[node.item] = static_cast<uint32_t>(index);
    nodes_[index] = std::move(node);
  }

  // Whether the item has that position in this heap; shared ones may be of another.
  bool is_at(uint32_t position, uint32_t item) const {
    if constexpr (!kShared) return position != kAbsent;
    return position < nodes_.size() && nodes_[position].item == item;
  }
  bool is_free(uint32_t item) const {
    const HeapPositions& position = by_item_.all();
    return item >= position.size() || position[item] == kAbsent;
  }

  std::vector<Node> nodes_;
  ByItem<uint32_t, kShared> by_item_;
};

}  // namespace lambent::scheduling
