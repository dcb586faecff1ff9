// NotedFlows: flows that wait and were found to have no place, in the order of their keys, each
// with a note of why. A part of WaitingOrder, which fair queuing asks about the notes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "core/base/units.h"
#include "decide/scheduling/by_item.h"
#include "decide/scheduling/no_place.h"

namespace lambent::scheduling {

// They are few, and are looked past at every decision: their numbers lie side by side. A place is
// an index into the order. kShared: which are noted is kept together with those of other orders, in
// which these flows are not.
template <typename Key, bool kShared = false>
class NotedFlows {
 public:
  NotedFlows() requires(!kShared) = default;
  // They outlive it.
  explicit NotedFlows(std::vector<uint8_t>& shared) requires kShared : is_noted_(shared) {}

  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }
  bool contains(uint32_t item) const {
    return item < is_noted_.all().size() && is_noted_.all()[item];
  }
  uint32_t item(size_t place) const { return items_[place]; }
  const Key& key(size_t place) const { return noted_[place].key; }
  const NoPlace& note(size_t place) const { return noted_[place].note; }
  // Of one that is there.
  size_t place_of(uint32_t item) const {
    return static_cast<size_t>(std::find(items_.begin(), items_.end(), item) - items_.begin());
  }

  // The caller keeps the order.
  void insert(size_t place, uint32_t item, Key key, const NoPlace& note) {
    const auto at = static_cast<ptrdiff_t>(place);
    noted_.insert(noted_.begin() + at, {std::move(key), note});
    items_.insert(items_.begin() + at, item);
    if (item >= is_noted_.all().size()) is_noted_.all().resize(item + 1);
    is_noted_.all()[item] = 1;
    count(note);
  }
  // Returns its key.
  Key remove(size_t place) {
    uncount(noted_[place].note);
    Key key = std::move(noted_[place].key);
    is_noted_.all()[items_[place]] = 0;
    items_.erase(items_.begin() + static_cast<ptrdiff_t>(place));
    noted_.erase(noted_.begin() + static_cast<ptrdiff_t>(place));
    if (items_.empty()) most_memory_ = {};
    return key;
  }
  void set_note(size_t place, const NoPlace& note) {
    uncount(noted_[place].note);
    noted_[place].note = note;
    count(note);
  }

  bool any_unknown() const { return unknown_ > 0; }
  bool any_nowhere() const { return nowhere_ > 0; }
  // Whether any waits for its idle sandboxes for another reason than their devices' tokens.
  bool any_warm_without_room() const { return warm_without_room_ > 0; }
  bool any_not_at_work() const { return at_work_ < noted_.size(); }
  // How many come before the first that does not wait for its own sandboxes.
  size_t at_work_before_others() const {
    size_t count = 0;
    while (count < noted_.size() && noted_[count].note.because == NoPlace::Because::kAtWork) {
      ++count;
    }
    return count;
  }
  // No less than any of them asks for.
  Bytes most_memory() const { return most_memory_; }
  // The same, and no more than one of them.
  Bytes find_most_memory() const {
    most_memory_ = {};
    for (const Noted& one : noted_) most_memory_ = std::max(most_memory_, one.note.memory);
    return most_memory_;
  }
  // No later than any instant that is noted.
  Instant least_then() const { return least_then_; }
  // The earliest instant that is noted of all, or of the first so many.
  Instant find_least_then() const {
    return least_then_is_noted_ ? least_then_ : find_least_then(items_.size());
  }
  Instant find_least_then(size_t count) const {
    Instant least = kNever;
    for (size_t i = 0; i < count; ++i) least = std::min(least, noted_[i].note.then);
    if (count == items_.size()) {
      least_then_ = least;
      least_then_is_noted_ = true;
    }
    return least;
  }

 private:
  struct Noted {
    Key key;
    NoPlace note;
  };

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
    if (note.then == least_then_) least_then_is_noted_ = false;
  }

  std::vector<uint32_t> items_;
  std::vector<Noted> noted_;
  ByItem<uint8_t, kShared> is_noted_;
  size_t unknown_ = 0;
  size_t at_work_ = 0;
  size_t nowhere_ = 0;
  size_t warm_without_room_ = 0;
  // Bounds, which the questions make tighter.
  mutable Bytes most_memory_;
  mutable Instant least_then_ = kNever;
  mutable bool least_then_is_noted_ = true;  // it is that of one
};

}  // namespace lambent::scheduling
