// Deadlines: an instant for each of many dense numbers, most of which are put off or taken back
// long before they come. A value; kept by dispatch on the loop thread.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/check.h"
#include "core/base/fetch_lines.h"
#include "core/base/state_archive.h"
#include "core/base/time.h"
#include "decide/scheduling/indexed_heap.h"

namespace lambent::scheduling {

// To put a deadline off or to take it back costs one write: the heap keeps the instant that it was
// told before, which is never later than the deadline, and is told the truth when it is asked
// about an instant after that.
class Deadlines {
 public:
  // The item's only deadline; kNever takes it back.
  void put(uint32_t item, Instant at) {
    if (item >= items_.size()) {
      if (at == kNever) return;
      items_.resize(item + 1);
    }
    Item& known = items_[item];
    known.due = at;
    if (at >= known.noted) return;
    known.noted = at;
    notes_.put(item, at);
  }
  void erase(uint32_t item) {
    if (item < items_.size()) items_[item].due = kNever;
  }

  // Into the caches, what put() and erase() of this one change.
  void fetch(uint32_t item) const {
    if (item < items_.size()) fetch_lines(items_[item]);
  }

  // kNever: it has none.
  Instant of(uint32_t item) const { return item < items_.size() ? items_[item].due : kNever; }
  // The earliest of all, or `limit` if none is before that.
  Instant earliest(Instant limit) {
    while (!notes_.empty() && notes_.top_key() < limit) {
      if (is_settled()) return notes_.top_key();
      settle();
    }
    return limit;
  }
  // Whether any is not later than that.
  bool any_until(Instant now) {
    while (!notes_.empty() && notes_.top_key() <= now) {
      if (is_settled()) return true;
      settle();
    }
    return false;
  }
  // The item whose deadline is the earliest, of equals the lower one, is without one from then on.
  // There must be one.
  uint32_t pop() {
    while (!is_settled()) settle();
    const uint32_t item = notes_.pop();
    items_[item] = {};
    return item;
  }

  void archive(StateArchive& archive) {
    size_t count = 0;
    for (const Item& item : items_) count += item.due != kNever ? 1 : 0;
    count = archive.count(count);
    if (archive.reading()) {
      restore(archive, count);
      return;
    }
    for (uint32_t item = 0; item < items_.size(); ++item) {
      if (items_[item].due == kNever) continue;
      archive.field(item);
      archive.field(items_[item].due);
    }
  }

 private:
  struct Item {
    Instant due = kNever;
    Instant noted = kNever;  // its key in the heap, never later than `due`; kNever: it is not there
  };

  // Whether the first of the heap is there with its deadline.
  bool is_settled() const {
    CHECK(!notes_.empty(), "a function has a deadline");
    const Item& first = items_[notes_.top()];
    return first.due == first.noted;
  }
  void settle() {
    const uint32_t item = notes_.top();
    Item& known = items_[item];
    known.noted = known.due;
    if (known.due == kNever) {
      notes_.erase(item);
    } else {
      notes_.put(item, known.due);
    }
  }

  void restore(StateArchive& archive, size_t count) {
    items_.clear();
    notes_ = {};
    for (size_t i = 0; i < count && archive.ok(); ++i) {
      uint32_t item = 0;
      Instant due{};
      archive.field(item);
      archive.field(due);
      archive.expect(item < kMostArchivedItem && of(item) == kNever);
      if (archive.ok()) put(item, due);
    }
  }

  std::vector<Item> items_;
  IndexedHeap<Instant> notes_;
};

}  // namespace lambent::scheduling
