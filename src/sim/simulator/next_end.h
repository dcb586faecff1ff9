// NextEnd: which of a fixed number of places ends next. A value; used by Simulation for its devices
// and links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/time.h"

namespace lambent::simulator {

// A tournament: each match is won by the earlier of two, of equals by the lower place, and only the
// matches on the way up from a place are played again when its end changes. So a change costs a few
// steps without a branch that cannot be foreseen, and the same for one that is put off.
class NextEnd {
 public:
  explicit NextEnd(size_t places = 0) : ends_(places, kNever), winners_(2 * places) {
    for (size_t i = 0; i < places; ++i) winners_[places + i] = static_cast<uint32_t>(i);
    for (size_t match = places; match-- > 1;) winners_[match] = winner_of(match);
  }

  // kNever: it has no end.
  void put(uint32_t place, Instant end) {
    if (ends_[place] == end) return;
    ends_[place] = end;
    for (size_t match = (ends_.size() + place) / 2; match > 0; match /= 2) {
      const uint32_t before = winners_[match];
      winners_[match] = winner_of(match);
      // Who wins further up has not changed then, and its end neither.
      if (before != place && winners_[match] == before) break;
    }
  }

  bool empty() const { return top_end() == kNever; }
  // The earliest, if there is any.
  uint32_t top() const { return winners_[1]; }
  Instant top_end() const { return ends_.empty() ? kNever : ends_[top()]; }

 private:
  uint32_t winner_of(size_t match) const {
    const uint32_t one = winners_[2 * match];
    const uint32_t other = winners_[2 * match + 1];
    const auto less = static_cast<unsigned>(ends_[other] < ends_[one]);
    const auto equal = static_cast<unsigned>(ends_[other] == ends_[one]);
    const bool is_other = (less | (equal & static_cast<unsigned>(other < one))) != 0;
    return is_other ? other : one;
  }

  std::vector<Instant> ends_;
  // The match i is between the winners of 2i and 2i + 1; the places stand behind the matches.
  std::vector<uint32_t> winners_;
};

}  // namespace lambent::simulator
