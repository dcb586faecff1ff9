// WaitingOrder: flows that wait, in the order of their keys. Those that are known to have no place
// lie apart, so that a decision need not ask for them again. Used by fair queuing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "decide/scheduling/indexed_heap.h"
#include "decide/scheduling/no_place.h"
#include "decide/scheduling/noted_flows.h"

namespace lambent::scheduling {

// Where flows are, for several orders of which each has some of them: they take room for each flow
// once, however many orders there are. Outlives these.
struct WaitingPlaces {
  HeapPositions heap;
  std::vector<uint8_t> noted;
};

// Most flows go as soon as they come; they lie in a heap, where that costs least. Those that were
// asked for and have no place are few, and are looked past at every decision: they lie side by side
// in order, each with a note of why, and return to the heap when something that it depends on has
// changed. A decision walks along both. Least key first; equal keys by the lower item.
template <typename Key, bool kShared = false>
class WaitingOrder {
 public:
  WaitingOrder() requires(!kShared) = default;
  explicit WaitingOrder(WaitingPlaces& shared) requires kShared : heap_(shared.heap),
                                                                  noted_(shared.noted) {}

  bool empty() const { return heap_.empty() && noted_.empty(); }
  size_t size() const { return heap_.size() + noted_.size(); }
  bool contains(uint32_t item) const { return heap_.contains(item) || noted_.contains(item); }
  // Those that lie apart, in their order.
  const NotedFlows<Key, kShared>& noted() const { return noted_; }
  // The least of all; there must be one.
  uint32_t top() const { return heap_is_first(0) ? heap_.top() : noted_.item(0); }
  const Key& top_key() const { return heap_is_first(0) ? heap_.top_key() : noted_.key(0); }

  // Inserts the item, or gives it another key; what was noted of it is forgotten.
  void put(uint32_t item, Key key) {
    if (noted_.contains(item)) noted_.remove(noted_.place_of(item));
    heap_.put(item, std::move(key));
  }
  void erase(uint32_t item) {
    if (noted_.contains(item)) {
      noted_.remove(noted_.place_of(item));
    } else {
      heap_.erase(item);
    }
  }
  uint32_t pop() {
    const uint32_t item = top();
    erase(item);
    return item;
  }

  // What was noted stands no more: of this one, of those for whom it is time, who had no place
  // anywhere, of all.
  void forget(uint32_t item) {
    if (noted_.contains(item)) forget_at(noted_.place_of(item));
  }
  // Of this one, if the condition holds for what was noted.
  template <typename Condition>
  void forget(uint32_t item, Condition condition) {
    if (!noted_.contains(item)) return;
    const size_t place = noted_.place_of(item);
    if (condition(noted_.note(place))) forget_at(place);
  }
  void forget_until(Instant now) {
    if (noted_.least_then() > now) return;
    forget_if([&](const NoPlace& note) { return note.then <= now; });
    noted_.find_least_then(noted_.size());
  }
  void forget_nowhere() {
    if (!noted_.any_nowhere()) return;
    forget_if([](const NoPlace& note) { return note.because == NoPlace::Because::kNowhere; });
  }
  void forget_all() {
    forget_if([](const NoPlace&) { return true; });
  }

  // ---- A walk along all, in order. Between its steps nothing else is done here.
  void begin() { go_to(0); }
  bool done() const { return !from_heap_ && at_ == noted_.size(); }
  // Of one that is not done.
  uint32_t item() const { return from_heap_ ? heap_.top() : noted_.item(at_); }
  const NoPlace& note() const { return from_heap_ ? kNothing : noted_.note(at_); }
  void take_note(const NoPlace& note) {
    if (from_heap_) {
      insert(note);
    } else {
      noted_.set_note(at_, note);
    }
  }
  void next() {
    if (from_heap_) insert({});
    go_to(at_ + 1);
  }
  // To the least of those in the heap, past all before it; done() if there is none. Returns the
  // earliest instant that is noted of these.
  Instant skip_noted() {
    if (heap_.empty()) {
      go_to(noted_.size());
      return noted_.find_least_then();
    }
    size_t first = 0;
    for (size_t left = noted_.size(); left > 0;) {
      const size_t half = left / 2;
      if (is_before_heap(first + half)) {
        first += half + 1;
        left -= half + 1;
      } else {
        left = half;
      }
    }
    at_ = first;
    from_heap_ = true;
    return noted_.find_least_then(first);
  }

  // How many that lie apart come before the one at which the walk is.
  size_t noted_before() const { return at_; }

  // The items with their keys, as IndexedHeap has them; notes are made again.
  template <typename ArchiveKey>
  void archive(StateArchive& archive, ArchiveKey key) {
    forget_all();
    heap_.archive(archive, key);
  }
  void archive(StateArchive& archive_to) {
    archive(archive_to, [&](Key& key) { archive_to.field(key); });
  }

 private:
  bool is_before_heap(size_t place) const {
    const Key& key = noted_.key(place);
    if (key == heap_.top_key()) return noted_.item(place) < heap_.top();
    return key < heap_.top_key();
  }
  // Whether the least of the heap comes before all that are noted from there on.
  bool heap_is_first(size_t place) const {
    if (heap_.empty()) return false;
    return place == noted_.size() || !is_before_heap(place);
  }
  void go_to(size_t place) {
    at_ = place;
    from_heap_ = heap_is_first(place);
  }

  // The least of the heap, at the place where the walk is.
  void insert(const NoPlace& note) {
    Key key = heap_.top_key();
    const uint32_t item = heap_.pop();
    noted_.insert(at_, item, std::move(key), note);
    from_heap_ = false;
  }
  void forget_at(size_t place) {
    const uint32_t item = noted_.item(place);
    heap_.put(item, noted_.remove(place));
  }
  template <typename Condition>
  void forget_if(Condition condition) {
    for (size_t place = noted_.size(); place-- > 0;) {
      if (condition(noted_.note(place))) forget_at(place);
    }
  }

  static constexpr NoPlace kNothing{};

  IndexedHeap<Key, kShared> heap_;
  NotedFlows<Key, kShared> noted_;
  size_t at_ = 0;           // of the walk: the next of those that were noted
  bool from_heap_ = false;  // and whether the least of the heap comes before it
};

}  // namespace lambent::scheduling
