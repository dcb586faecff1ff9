#include "workload/quantiles.h"

#include <algorithm>
#include <cmath>

namespace lambent::workload {
namespace {

const double kLogBase = std::log(1.002);
// Smaller numbers count as zero: a trillionth of a second is nobody's latency.
constexpr double kLeast = 1e-12;

}  // namespace

void Quantiles::add(double value) {
  least_ = count_ == 0 ? value : std::min(least_, value);
  most_ = count_ == 0 ? value : std::max(most_, value);
  ++count_;
  if (count_ <= kExact) {
    sorted_ = sorted_ && (exact_.empty() || exact_.back() <= value);
    exact_.push_back(value);
    return;
  }
  if (!exact_.empty()) fold();
  if (value < kLeast) {
    ++zeros_;
  } else {
    ++buckets_[static_cast<int>(std::lround(std::log(value) / kLogBase))];
  }
}

void Quantiles::fold() {
  for (const double value : exact_) {
    if (value < kLeast) {
      ++zeros_;
    } else {
      ++buckets_[static_cast<int>(std::lround(std::log(value) / kLogBase))];
    }
  }
  exact_ = {};
}

double Quantiles::at(double share) const {
  if (count_ == 0) return 0;
  const double wanted = std::ceil(std::clamp(share, 0.0, 1.0) * static_cast<double>(count_));
  const uint64_t rank = std::max<uint64_t>(1, static_cast<uint64_t>(wanted));
  if (!exact_.empty()) {
    if (!sorted_) std::sort(exact_.begin(), exact_.end());
    sorted_ = true;
    return exact_[rank - 1];
  }
  if (rank == count_) return most_;
  uint64_t seen = zeros_;
  if (rank <= seen) return least_;
  for (const auto& [bucket, count] : buckets_) {
    seen += count;
    if (rank <= seen) return std::clamp(std::exp(bucket * kLogBase), least_, most_);
  }
  return most_;
}

void Moments::add(double value) {
  ++count_;
  const double before = value - mean_;
  mean_ += before / static_cast<double>(count_);
  squares_ += before * (value - mean_);
}

}  // namespace lambent::workload
