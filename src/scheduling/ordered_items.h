// OrderedItems: dense numbers in the order of their keys, which can be walked from the least on
// without taking any out. A value; used by policies whose first candidates may not fit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/state_archive.h"
#include "scheduling/indexed_heap.h"

namespace lambent::scheduling {

// Least key first; equal keys by the lower item, so that the order is total and repeatable. Sorted
// blocks of bounded size: a change costs two short searches and moves at most one block, a step of
// a walk is the next element. Where nobody walks, IndexedHeap moves less.
template <typename Key>
class OrderedItems {
 public:
  struct Node {
    Key key{};
    uint32_t item = 0;
    bool operator<(const Node& other) const {
      return key < other.key || (key == other.key && item < other.item);
    }
  };

  bool empty() const { return blocks_.empty(); }
  bool contains(uint32_t item) const { return item < is_in_.size() && is_in_[item] != 0; }

  // None may be put or erased while a walk goes on: for (const auto& [key, item] : items).
  class Walk {
   public:
    Walk(const OrderedItems& items, size_t block) : items_(items), block_(block) {}
    const Node& operator*() const { return items_.blocks_[block_].nodes[place_]; }
    bool operator!=(const Walk& other) const {
      return block_ != other.block_ || place_ != other.place_;
    }
    Walk& operator++() {
      if (++place_ < items_.blocks_[block_].nodes.size()) return *this;
      ++block_;
      place_ = 0;
      return *this;
    }

   private:
    const OrderedItems& items_;
    size_t block_;
    size_t place_ = 0;
  };
  Walk begin() const { return {*this, 0}; }
  Walk end() const { return {*this, blocks_.size()}; }

  // Of those that are not empty.
  uint32_t top() const { return blocks_.front().nodes.front().item; }
  const Key& top_key() const { return blocks_.front().nodes.front().key; }

  // Inserts the item, or gives it another key.
  void put(uint32_t item, Key key) {
    if (item >= is_in_.size()) {
      is_in_.resize(item + 1);
      keys_.resize(item + 1);
    }
    if (is_in_[item] != 0) {
      if (keys_[item] == key) return;
      take_out({keys_[item], item});
    }
    is_in_[item] = 1;
    keys_[item] = key;
    insert({key, item});
  }

  void erase(uint32_t item) {
    if (!contains(item)) return;
    is_in_[item] = 0;
    take_out({keys_[item], item});
  }

  uint32_t pop() {
    CHECK(!empty(), "pop of nothing");
    const uint32_t item = top();
    erase(item);
    return item;
  }

  // The items with their keys; `key(Key&)` archives one.
  template <typename ArchiveKey>
  void archive(StateArchive& archive, ArchiveKey key) {
    size_t size = 0;
    for (const Block& block : blocks_) size += block.nodes.size();
    size = archive.count(size);
    if (!archive.reading()) {
      for (Node node : *this) {
        archive.field(node.item);
        key(node.key);
      }
      return;
    }
    *this = {};
    for (size_t i = 0; i < size && archive.ok(); ++i) {
      Node node;
      archive.field(node.item);
      key(node.key);
      archive.expect(node.item < kMostArchivedItem && !contains(node.item));
      if (archive.ok()) put(node.item, node.key);
    }
  }
  void archive(StateArchive& archive_to) {
    archive(archive_to, [&](Key& key) { archive_to.field(key); });
  }

 private:
  static constexpr size_t kMostInBlock = 64;

  struct Block {
    Node first;  // of the nodes: which block an item belongs to is seen without a look at them
    std::vector<Node> nodes;
  };

  // The last block that does not begin after the node, or the first one.
  size_t block_of(const Node& node) const {
    const auto after =
        std::upper_bound(blocks_.begin(), blocks_.end(), node,
                         [](const Node& one, const Block& block) { return one < block.first; });
    return after == blocks_.begin() ? 0 : static_cast<size_t>(after - blocks_.begin()) - 1;
  }

  void insert(const Node& node) {
    if (blocks_.empty()) blocks_.emplace_back();
    size_t at = block_of(node);
    if (blocks_[at].nodes.size() == kMostInBlock) {
      split(at);
      if (!(node < blocks_[at + 1].first)) ++at;
    }
    std::vector<Node>& nodes = blocks_[at].nodes;
    nodes.insert(std::lower_bound(nodes.begin(), nodes.end(), node), node);
    blocks_[at].first = nodes.front();
  }

  void take_out(const Node& node) {
    const size_t at = block_of(node);
    std::vector<Node>& nodes = blocks_[at].nodes;
    nodes.erase(std::lower_bound(nodes.begin(), nodes.end(), node));
    if (nodes.empty()) {
      blocks_.erase(blocks_.begin() + static_cast<ptrdiff_t>(at));
    } else {
      blocks_[at].first = nodes.front();
    }
  }

  void split(size_t at) {
    blocks_.emplace(blocks_.begin() + static_cast<ptrdiff_t>(at) + 1);
    std::vector<Node>& nodes = blocks_[at].nodes;
    const auto middle = nodes.begin() + kMostInBlock / 2;
    Block& upper = blocks_[at + 1];
    upper.nodes.reserve(kMostInBlock);
    upper.nodes.assign(middle, nodes.end());
    upper.first = upper.nodes.front();
    nodes.erase(middle, nodes.end());
  }

  std::vector<Block> blocks_;   // none of them empty
  std::vector<uint8_t> is_in_;  // by item
  std::vector<Key> keys_;       // likewise
};

}  // namespace lambent::scheduling
