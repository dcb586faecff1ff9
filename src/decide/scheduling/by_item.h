// ByItem: a number for each item, by the item's own number: of one owner, or of several that share
// them. A value; a part of IndexedHeap and NotedFlows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lambent::scheduling {

// With thousands of owners, of which each has few of all the items, numbers of their own would take
// room for every item in every owner.
template <typename Number, bool kShared>
class ByItem {
 public:
  std::vector<Number>& all() { return own_; }
  const std::vector<Number>& all() const { return own_; }

 private:
  std::vector<Number> own_;
};

template <typename Number>
class ByItem<Number, true> {
 public:
  // They outlive it. An item is of one owner at a time.
  explicit ByItem(std::vector<Number>& shared) : shared_(&shared) {}
  std::vector<Number>& all() { return *shared_; }
  const std::vector<Number>& all() const { return *shared_; }

 private:
  std::vector<Number>* shared_;
};

}  // namespace lambent::scheduling
