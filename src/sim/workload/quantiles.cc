#include "sim/workload/quantiles.h"

#include <algorithm>
#include <climits>
#include <cmath>

namespace lambent::workload {
namespace {

const double kLogBase = std::log(1.002);
// Smaller numbers count as zero: a trillionth of a second is no real latency.
constexpr double kLeast = 1e-12;
constexpr int kZero = INT_MIN;  // the bucket of these

}  // namespace

int Quantiles::bucket_of(double value) {
  return value < kLeast ? kZero : static_cast<int>(std::lround(std::log(value) / kLogBase));
}

void Quantiles::add(double value, int bucket) {
  least_ = count_ == 0 ? value : std::min(least_, value);
  most_ = count_ == 0 ? value : std::max(most_, value);
  ++count_;
  if (count_ <= most_exact_) {
    sorted_ = sorted_ && (exact_.empty() || exact_.back() <= value);
    exact_.push_back(value);
    return;
  }
  if (!exact_.empty()) fold();
  count_in(bucket);
}

void Quantiles::fold() {
  for (const double value : exact_) count_in(bucket_of(value));
  exact_ = {};
}

void Quantiles::count_in(int bucket) {
  if (bucket == kZero) {
    ++zeros_;
    return;
  }
  // The numbers of a stream lie near each other: a few hundred buckets mostly hold them.
  if (buckets_.empty()) first_bucket_ = bucket;
  if (bucket < first_bucket_) {
    buckets_.insert(buckets_.begin(), static_cast<size_t>(first_bucket_ - bucket), 0);
    first_bucket_ = bucket;
  }
  const auto index = static_cast<size_t>(bucket - first_bucket_);
  if (index >= buckets_.size()) buckets_.resize(index + 1, 0);
  ++buckets_[index];
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
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    const int bucket = first_bucket_ + static_cast<int>(i);
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

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace lambent::workload
