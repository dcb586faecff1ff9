#include "sim/workload/least_latency.h"

#include <algorithm>
#include <limits>

namespace lambent::workload {

void LeastLatency::work_until(double at_s) {
  while (!left_s_.empty()) {
    const double left_s = left_s_.top();
    left_s_.pop();
    const double end_s = now_s_ + left_s / rate_;
    if (end_s > at_s) {
      left_s_.push(std::max(0.0, left_s - (at_s - now_s_) * rate_));
      break;
    }
    now_s_ = end_s;
    ends_s_ += end_s;
  }
  now_s_ = std::max(now_s_, at_s);
}

void LeastLatency::add(Duration at, Duration work) {
  const double at_s = to_seconds(at);
  work_until(at_s);
  ++count_;
  arrivals_s_ += at_s;
  work_s_ += to_seconds(work);
  left_s_.push(to_seconds(work));
}

std::optional<double> LeastLatency::mean_s() {
  if (count_ == 0) return std::nullopt;
  const double last_s = now_s_;
  work_until(std::numeric_limits<double>::max());
  now_s_ = last_s;
  return std::max(ends_s_ - arrivals_s_, work_s_) / static_cast<double>(count_);
}

}  // namespace lambent::workload
