// MovingAverage: a figure that is read now and then, such as a device's utilisation, smoothed over
// a time. A value; used where dispatch is given its readings.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/time.h"

namespace lambent::scheduling {

// Exponential: what was read that long ago weighs 1/e of what is read now.
class MovingAverage {
 public:
  // Zero: each reading by itself.
  explicit MovingAverage(Duration over) : over_(over) {}

  // The average, with a reading at `now`. One before the last counts as if it were at that time: a
  // wall clock may be set back.
  double add(double reading, Instant now) {
    if (!average_ || over_ == Duration(0)) {
      average_ = reading;
    } else {
      const double passed_s = std::max(0.0, to_seconds(now - since_));
      const double kept = std::exp(-passed_s / to_seconds(over_));
      average_ = reading + kept * (*average_ - reading);
    }
    since_ = now;
    return *average_;
  }

 private:
  Duration over_;
  std::optional<double> average_;
  Instant since_{};
};

}  // namespace lambent::scheduling
