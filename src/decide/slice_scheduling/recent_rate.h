// RecentRate: how much came a second, recently. What is older counts less, so that there are no
// windows, and it does not matter when one would have begun.
#pragma once

#include <cmath>

#include "core/base/time.h"

namespace lambent::slice_scheduling {

class RecentRate {
 public:
  // What came so long ago counts 1/e of what comes now.
  explicit RecentRate(Duration memory) : memory_s_(to_seconds(memory)) {}

  // Time runs forward.
  void add(double amount, Instant now) {
    rate_ = per_s(now) + amount / memory_s_;
    at_ = now;
  }
  double per_s(Instant now) const { return rate_ * std::exp(-to_seconds(now - at_) / memory_s_); }

 private:
  double memory_s_;
  double rate_ = 0;  // at at_
  Instant at_{};
};

}  // namespace lambent::slice_scheduling
