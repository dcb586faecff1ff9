#include "node/worker/covered_time.h"

#include <algorithm>
#include <iterator>

namespace lambent::worker {

void CoveredTime::add(Instant from, Instant to) {
  from = std::max(from, forgotten_);
  if (to <= from) return;
  auto touched = intervals_.upper_bound(from);
  if (touched != intervals_.begin() && std::prev(touched)->second >= from) --touched;
  while (touched != intervals_.end() && touched->first <= to) {
    from = std::min(from, touched->first);
    to = std::max(to, touched->second);
    total_ -= touched->second - touched->first;
    touched = intervals_.erase(touched);
  }
  intervals_[from] = to;
  total_ += to - from;
  if (intervals_.size() <= kIntervals) return;
  forgotten_ = intervals_.begin()->second;
  intervals_.erase(intervals_.begin());
}

}  // namespace lambent::worker
