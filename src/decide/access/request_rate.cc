#include "decide/access/request_rate.h"

#include <algorithm>

namespace lambent::access {

// A rate below one a second still lets a request pass when it has waited for it.
double RequestRate::size() const { return std::max(*per_second_, 1.0); }

void RequestRate::fill(Instant now) {
  left_ = std::min(size(), left_ + to_seconds(now - filled_) * *per_second_);
  filled_ = now;
}

void RequestRate::set(std::optional<double> per_second, Instant now) {
  const bool was_limited = per_second_.has_value();
  if (was_limited) fill(now);
  per_second_ = per_second;
  if (!per_second_) return;
  left_ = was_limited ? std::min(left_, size()) : size();
  filled_ = now;
}

std::optional<Duration> RequestRate::take(Instant now) {
  if (!per_second_) return std::nullopt;
  fill(now);
  ++counts_.asked;
  if (left_ < 1) return from_seconds((1 - left_) / *per_second_);
  left_ -= 1;
  ++counts_.taken;
  return std::nullopt;
}

}  // namespace lambent::access
