// IdleWindows: how long instances of an idle function are kept, and when one comes back before the
// next call, from how long the function was idle before. A value; one thread.
//
// The long-short term histogram of Yang et al., "INFless" (ASPLOS 2022), which weighs the last day
// with the last hour; a window is a percentile, as in "Serverless in the Wild" (ATC 2020).
#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "core/base/time.h"

namespace lambent::scheduling {

struct IdleWindowOptions {
  Duration short_term = std::chrono::hours(1);
  Duration long_term = std::chrono::hours(24);
  double short_weight = 0.5;
  double head = 0.05;  // so many of the idle times are over when an instance comes back
  double tail = 0.99;  // so many when it goes for good
  Duration bin = std::chrono::minutes(1);
  // With fewer idle times than `least_samples` an instance is kept for `otherwise`.
  uint64_t least_samples = 10;
  Duration otherwise = std::chrono::minutes(10);
};

class IdleWindows {
 public:
  // Idle times are remembered one by one; of more than these the oldest are forgotten.
  static constexpr size_t kMostSamples = 8192;

  explicit IdleWindows(IdleWindowOptions options) : options_(options) {}

  // The function was called after so long; calls are told of in their order.
  void learn(Duration idle, Instant now);

  // Both count from when the function became idle. Zero for `returns`: an instance stays.
  struct Windows {
    Duration returns{};
    Duration goes{};
    bool operator==(const Windows&) const = default;
  };
  Windows windows(Instant now);

 private:
  struct Sample {
    Instant at{};
    int64_t bin = 0;
  };
  // The samples of the last hour, or of the last day: how many lie in each bin.
  struct Term {
    std::map<int64_t, uint64_t> counts;
    uint64_t samples = 0;

    void add(int64_t bin);
    void remove(int64_t bin);
    int64_t bin_at(double share) const;
  };
  void forget(Instant now);

  const IdleWindowOptions options_;
  std::deque<Sample> samples_;  // of the long term, the oldest first
  Term long_, short_;
};

}  // namespace lambent::scheduling
