#include "sim/workload/time_order.h"

#include <algorithm>

namespace lambent::workload {

// The time from the first to the last arrival is cut into as many parts as there are arrivals, so
// that a part has about one of them; then the few of each part are compared.
void TimeOrder::sort(std::vector<Arrival>& arrivals) {
  if (arrivals.size() < 2) return;
  const auto by_time = [](const Arrival& a, const Arrival& b) { return a.at < b.at; };
  const auto [first, last] = std::minmax_element(arrivals.begin(), arrivals.end(), by_time);
  const Duration begin = first->at;
  const double length = static_cast<double>((last->at - begin).count()) + 1;
  const double scale = static_cast<double>(arrivals.size()) / length;
  const auto part_of = [&](const Arrival& arrival) {
    return static_cast<size_t>(static_cast<double>((arrival.at - begin).count()) * scale);
  };
  // One part more than that, lest rounding puts the last arrival beyond the last part.
  ends_.assign(arrivals.size() + 1, 0);
  for (const Arrival& arrival : arrivals) ++ends_[part_of(arrival)];
  uint32_t total = 0;
  for (uint32_t& end : ends_) end = total += end;
  sorted_.resize(arrivals.size());
  for (const Arrival& arrival : arrivals) sorted_[--ends_[part_of(arrival)]] = arrival;
  // Now each number says where its part begins.
  for (size_t part = 0; part < ends_.size(); ++part) {
    const uint32_t from = ends_[part];
    const uint32_t to = part + 1 < ends_.size() ? ends_[part + 1] : total;
    if (to - from > 1) std::sort(sorted_.begin() + from, sorted_.begin() + to);
  }
  arrivals.swap(sorted_);
}

}  // namespace lambent::workload
