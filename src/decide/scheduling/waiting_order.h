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

namespace lambent::scheduling {

// Most flows go as soon as they come; they lie in a heap, where that costs least. Those that were
// asked for and have no place are few, and are looked past at every decision: they lie side by side
// in order, each with a note of why, and return to the heap when something that it depends on has
// changed. Whoever decides walks along both. Least key first; equal keys by the lower item.
template <typename Key>
class WaitingOrder {
 public:
  bool empty() const { return heap_.empty() && noted_.empty(); }
  size_t size() const { return heap_.size() + noted_.size(); }
  bool contains(uint32_t item) const { return heap_.contains(item) || is_noted(item); }
  // Whether it lies apart.
  bool is_noted(uint32_t item) const { return item < is_noted_.size() && is_noted_[item]; }
  // The least of all; there must be one.
  uint32_t top() const { return heap_is_first(0) ? heap_.top() : items_.front(); }
  const Key& top_key() const { return heap_is_first(0) ? heap_.top_key() : noted_.front().key; }

  // Inserts the item, or gives it another key; what was noted of it is forgotten.
  void put(uint32_t item, Key key) {
    if (is_noted(item)) take_out(place_of(item));
    heap_.put(item, std::move(key));
  }
  void erase(uint32_t item) {
    if (is_noted(item)) {
      take_out(place_of(item));
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
    if (is_noted(item)) forget_at(place_of(item));
  }
  // Of this one, if the condition holds for what was noted.
  template <typename Condition>
  void forget(uint32_t item, Condition condition) {
    if (!is_noted(item)) return;
    const size_t place = place_of(item);
    if (condition(noted_[place].note)) forget_at(place);
  }
  void forget_until(Instant now) {
    if (least_then_ > now) return;
    forget_if([&](const NoPlace& note) { return note.then <= now; });
    least_then(items_.size());
  }
  void forget_nowhere() {
    if (nowhere_ == 0) return;
    forget_if([](const NoPlace& note) { return note.because == NoPlace::Because::kNowhere; });
  }
  void forget_all() {
    forget_if([](const NoPlace&) { return true; });
  }

  // ---- A walk along all, in order. Between its steps nothing else is done here.
  void begin() { go_to(0); }
  bool done() const { return !from_heap_ && at_ == items_.size(); }
  // Of one that is not done.
  uint32_t item() const { return from_heap_ ? heap_.top() : items_[at_]; }
  const NoPlace& note() const { return from_heap_ ? kNothing : noted_[at_].note; }
  void take_note(const NoPlace& note) {
    if (from_heap_) {
      insert(note);
    } else {
      uncount(noted_[at_].note);
      noted_[at_].note = note;
      count(note);
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
      go_to(items_.size());
      return least_then_is_ ? least_then_ : least_then(items_.size());
    }
    size_t first = 0;
    for (size_t left = items_.size(); left > 0;) {
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
    return least_then(first);
  }

  // ---- Of those that lie apart
  bool any_unknown() const { return unknown_ > 0; }
  // Whether any waits for its idle sandboxes for another reason than their devices' tokens.
  bool any_warm_without_room() const { return warm_without_room_ > 0; }
  bool any_not_at_work() const { return at_work_ < noted_.size(); }
  // No less than any of them asks for.
  Bytes most_memory() const { return most_memory_; }
  // The same, and no more than one of them.
  Bytes find_most_memory() {
    most_memory_ = {};
    for (const Noted& one : noted_) most_memory_ = std::max(most_memory_, one.note.memory);
    return most_memory_;
  }
  // How many come before the first that does not wait for its own sandboxes.
  size_t at_work_before_others() const {
    size_t count = 0;
    while (count < noted_.size() && noted_[count].note.because == NoPlace::Because::kAtWork) {
      ++count;
    }
    return count;
  }
  const NoPlace& noted_at(size_t place) const { return noted_[place].note; }
  size_t noted() const { return noted_.size(); }
  // How many of these come before the one at which the walk is.
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
  struct Noted {
    Key key;
    NoPlace note;
  };

  bool is_before_heap(size_t place) const {
    const Noted& one = noted_[place];
    if (one.key == heap_.top_key()) return items_[place] < heap_.top();
    return one.key < heap_.top_key();
  }
  // Whether the least of the heap comes before all that are noted from there on.
  bool heap_is_first(size_t place) const {
    if (heap_.empty()) return false;
    return place == items_.size() || !is_before_heap(place);
  }
  void go_to(size_t place) {
    at_ = place;
    from_heap_ = heap_is_first(place);
  }

  // They are few, and their numbers lie side by side.
  size_t place_of(uint32_t item) const {
    return static_cast<size_t>(std::find(items_.begin(), items_.end(), item) - items_.begin());
  }

  // The least of the heap, at the place where the walk is.
  void insert(const NoPlace& note) {
    const auto place = static_cast<ptrdiff_t>(at_);
    noted_.insert(noted_.begin() + place, {heap_.top_key(), note});
    items_.insert(items_.begin() + place, heap_.top());
    const uint32_t item = heap_.pop();
    if (item >= is_noted_.size()) is_noted_.resize(item + 1);
    is_noted_[item] = 1;
    from_heap_ = false;
    count(note);
  }
  void take_out(size_t place) {
    uncount(noted_[place].note);
    is_noted_[items_[place]] = 0;
    items_.erase(items_.begin() + static_cast<ptrdiff_t>(place));
    noted_.erase(noted_.begin() + static_cast<ptrdiff_t>(place));
    if (items_.empty()) most_memory_ = {};
  }
  void forget_at(size_t place) {
    const uint32_t item = items_[place];
    Key key = std::move(noted_[place].key);
    take_out(place);
    heap_.put(item, std::move(key));
  }
  template <typename Condition>
  void forget_if(Condition condition) {
    for (size_t place = items_.size(); place-- > 0;) {
      if (condition(noted_[place].note)) forget_at(place);
    }
  }

  static bool is_without_room(const NoPlace& note) {
    return note.because == NoPlace::Because::kWarm && note.warm_reason != WaitReason::kNoToken;
  }
  void count(const NoPlace& note) {
    unknown_ += note.because == NoPlace::Because::kUnknown ? 1 : 0;
    at_work_ += note.because == NoPlace::Because::kAtWork ? 1 : 0;
    nowhere_ += note.because == NoPlace::Because::kNowhere ? 1 : 0;
    warm_without_room_ += is_without_room(note) ? 1 : 0;
    most_memory_ = std::max(most_memory_, note.memory);
    least_then_ = std::min(least_then_, note.then);
  }
  void uncount(const NoPlace& note) {
    unknown_ -= note.because == NoPlace::Because::kUnknown ? 1 : 0;
    at_work_ -= note.because == NoPlace::Because::kAtWork ? 1 : 0;
    nowhere_ -= note.because == NoPlace::Because::kNowhere ? 1 : 0;
    warm_without_room_ -= is_without_room(note) ? 1 : 0;
    if (note.then == least_then_) least_then_is_ = false;
  }
  // Of the first so many.
  Instant least_then(size_t count) {
    Instant least = kNever;
    for (size_t i = 0; i < count; ++i) least = std::min(least, noted_[i].note.then);
    if (count == items_.size()) {
      least_then_ = least;
      least_then_is_ = true;
    }
    return least;
  }

  static constexpr NoPlace kNothing{};

  IndexedHeap<Key> heap_;
  // Those that were noted, in order: their numbers, and beside them the rest.
  std::vector<uint32_t> items_;
  std::vector<Noted> noted_;
  std::vector<uint8_t> is_noted_;  // by item
  size_t unknown_ = 0;
  size_t at_work_ = 0;
  size_t nowhere_ = 0;
  size_t warm_without_room_ = 0;
  Bytes most_memory_;
  // No later than that of any note; and whether it is that of one.
  Instant least_then_ = kNever;
  bool least_then_is_ = true;
  size_t at_ = 0;           // of the walk: the next of those that were noted
  bool from_heap_ = false;  // and whether the least of the heap comes before it
};

}  // namespace lambent::scheduling
