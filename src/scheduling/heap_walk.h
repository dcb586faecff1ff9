// HeapWalk: the items of an IndexedHeap in the order of their keys, without taking any out. Used by
// policies whose first candidates may not fit.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "scheduling/indexed_heap.h"

namespace lambent::scheduling {

// Nobody comes before its parent in the heap, so who is next is among the children of those that
// were visited. A step notes one more family of children and looks at the first of each; the first
// of all costs nothing. The heap must not change meanwhile. Kept by whoever walks often, so that a
// walk allocates nothing.
template <typename Key>
class HeapWalk {
 public:
  // At the least of all.
  void begin(const IndexedHeap<Key>& heap) {
    heap_ = &heap;
    families_.clear();
    at_ = 0;
  }
  bool done() const { return at_ >= heap_->size(); }
  // Of one that is not done.
  uint32_t item() const { return heap_->item_at(at_); }

  void next() {
    const auto later = [this](const Family& one, const Family& other) {
      return heap_->is_before(other.first, one.first);
    };
    // The first of the families is the one of the last step.
    if (at_ != 0) {
      std::pop_heap(families_.begin(), families_.end(), later);
      if (families_.back().take_first(*heap_)) {
        std::push_heap(families_.begin(), families_.end(), later);
      } else {
        families_.pop_back();
      }
    }
    if (Family children(*heap_, at_); children.left != 0) {
      families_.push_back(children);
      std::push_heap(families_.begin(), families_.end(), later);
    }
    at_ = families_.empty() ? heap_->size() : families_.front().first;
  }

 private:
  static constexpr size_t kArity = IndexedHeap<Key>::kArity;

  // The children of one, as far as they were not visited yet.
  struct Family {
    Family(const IndexedHeap<Key>& heap, size_t parent) : begin(parent * kArity + 1) {
      if (begin >= heap.size()) return;
      left = (1U << std::min(kArity, heap.size() - begin)) - 1;
      find_first(heap);
    }
    // False if nobody else is left.
    bool take_first(const IndexedHeap<Key>& heap) {
      left &= ~(1U << (first - begin));
      if (left == 0) return false;
      find_first(heap);
      return true;
    }
    void find_first(const IndexedHeap<Key>& heap) {
      first = begin + static_cast<size_t>(std::countr_zero(left));
      for (unsigned rest = left & (left - 1); rest != 0; rest &= rest - 1) {
        const size_t child = begin + static_cast<size_t>(std::countr_zero(rest));
        first = heap.is_before(child, first) ? child : first;
      }
    }

    size_t begin;
    size_t first = 0;
    unsigned left = 0;  // a bit for each
  };

  const IndexedHeap<Key>* heap_ = nullptr;
  size_t at_ = 0;
  std::vector<Family> families_;  // a heap, the family with the least first member on top
};

}  // namespace lambent::scheduling
