// LatencyHistogram: how long invocations took, counted in buckets of equal ratio, so that
// percentiles of any number of them cost a fixed amount of memory. A value; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/base/time.h"

namespace lambent {

class LatencyHistogram {
 public:
  // Four for each doubling, up to 1,018 s; the last one has what took longer, too.
  static constexpr size_t kBuckets = 97;
  static constexpr Duration kFirstBound = std::chrono::microseconds(64);

  void add(Duration latency, uint32_t count = 1) {
    uint32_t& bucket = buckets_[bucket_of(latency)];
    bucket += std::min(count, UINT32_MAX - bucket);
  }
  void add(const LatencyHistogram& other) {
    for (size_t i = 0; i < kBuckets; ++i) {
      buckets_[i] += std::min(other.buckets_[i], UINT32_MAX - buckets_[i]);
    }
  }

  uint64_t count() const {
    uint64_t count = 0;
    for (const uint32_t bucket : buckets_) count += bucket;
    return count;
  }
  const std::array<uint32_t, kBuckets>& buckets() const { return buckets_; }

  // The latency that the share 0..1 of all stayed below, within a tenth; zero if there are none.
  Duration percentile(double share) const {
    const uint64_t all = count();
    if (all == 0) return {};
    const auto wanted = std::max<uint64_t>(
        1,
        static_cast<uint64_t>(std::ceil(std::clamp(share, 0.0, 1.0) * static_cast<double>(all))));
    uint64_t seen = 0;
    size_t bucket = 0;
    while (bucket + 1 < kBuckets && (seen += buckets_[bucket]) < wanted) ++bucket;
    // The middle of the bucket, as ratios go.
    return from_seconds(to_seconds(upper_bound(bucket)) / std::pow(2.0, 1.0 / 8));
  }

  static Duration upper_bound(size_t bucket) {
    return from_seconds(to_seconds(kFirstBound) * std::pow(2.0, static_cast<double>(bucket) / 4));
  }

  bool operator==(const LatencyHistogram&) const = default;

 private:
  static size_t bucket_of(Duration latency) {
    if (latency <= kFirstBound) return 0;
    const double doublings = std::log2(to_seconds(latency) / to_seconds(kFirstBound));
    // What lies on a bound belongs below it, whatever the rounding of the logarithm.
    const double place = std::ceil(doublings * 4 - 1e-9);
    return std::min(kBuckets - 1, static_cast<size_t>(place));
  }

  std::array<uint32_t, kBuckets> buckets_{};
};

}  // namespace lambent
