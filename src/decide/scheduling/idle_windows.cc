#include "decide/scheduling/idle_windows.h"

#include <algorithm>
#include <cmath>

namespace lambent::scheduling {

void IdleWindows::Term::add(int64_t bin) {
  ++counts[bin];
  ++samples;
}

void IdleWindows::Term::remove(int64_t bin) {
  const auto found = counts.find(bin);
  if (--found->second == 0) counts.erase(found);
  --samples;
}

int64_t IdleWindows::Term::bin_at(double share) const {
  const double rank = std::max(1.0, std::ceil(share * static_cast<double>(samples)));
  uint64_t below = 0;
  for (const auto& [bin, count] : counts) {
    below += count;
    if (static_cast<double>(below) >= rank) return bin;
  }
  return 0;
}

void IdleWindows::learn(Duration idle, Instant now) {
  forget(now);
  if (samples_.size() == kMostSamples) {
    long_.remove(samples_.front().bin);
    if (short_.samples == samples_.size()) short_.remove(samples_.front().bin);
    samples_.pop_front();
  }
  samples_.push_back({now, std::max(Duration(0), idle) / options_.bin});
  long_.add(samples_.back().bin);
  short_.add(samples_.back().bin);
}

void IdleWindows::forget(Instant now) {
  // Those of the short term are the last ones.
  while (short_.samples > 0) {
    const Sample& oldest = samples_[samples_.size() - short_.samples];
    if (oldest.at >= now - options_.short_term) break;
    short_.remove(oldest.bin);
  }
  while (!samples_.empty() && samples_.front().at < now - options_.long_term) {
    long_.remove(samples_.front().bin);
    samples_.pop_front();
  }
}

IdleWindows::Windows IdleWindows::windows(Instant now) {
  forget(now);
  if (samples_.size() < options_.least_samples) return {Duration(0), options_.otherwise};
  // Who was not called in the last hour has no short term.
  const Term& hour = short_.samples > 0 ? short_ : long_;
  const auto weighed = [&](int64_t short_term, int64_t long_term) {
    const double bins = options_.short_weight * static_cast<double>(short_term) +
                        (1 - options_.short_weight) * static_cast<double>(long_term);
    return from_seconds(bins * to_seconds(options_.bin));
  };
  // A head is the begin of its bin, a tail the end.
  return {weighed(hour.bin_at(options_.head), long_.bin_at(options_.head)),
          weighed(hour.bin_at(options_.tail) + 1, long_.bin_at(options_.tail) + 1)};
}

}  // namespace lambent::scheduling
