// CoveredTime: how long at least one of many intervals lasted, such as those in which slices of one
// GPU were at work. A value; used by PipelineHost on the loop thread.
#pragma once

#include <cstddef>
#include <map>

#include "core/base/time.h"

namespace lambent::worker {

class CoveredTime {
 public:
  // In any order; of what is older than the last kIntervals that do not touch each other, nothing
  // is added.
  void add(Instant from, Instant to);
  Duration total() const { return total_; }

  static constexpr size_t kIntervals = 256;

 private:
  std::map<Instant, Instant> intervals_;  // from, to; apart from each other
  Instant forgotten_{};
  Duration total_{};
};

}  // namespace lambent::worker
