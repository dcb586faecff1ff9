#include "decide/scheduling/sliding_hour.h"

#include <algorithm>
#include <vector>

namespace lambent::scheduling {
namespace {

// Longer than any run, and far from what a Duration counts.
constexpr Duration kMostAdded = std::chrono::hours(24);
constexpr Duration kMostUsed = std::chrono::hours(24 * 365 * 100);

}  // namespace

uint64_t SlidingHour::number_of(Instant now) {
  return static_cast<uint64_t>(now.time_since_epoch() / kStep);
}

Instant SlidingHour::end_of(const Step& step) {
  return Instant(kStep * static_cast<int64_t>(step.number + 1) + kHour);
}

void SlidingHour::add(Duration time, Instant now) {
  expire(now);
  const Duration counted = std::clamp<Duration>(time, Duration(0), kMostAdded);
  if (counted == Duration(0) || used_ > kMostUsed) return;
  const uint64_t number = number_of(now);
  if (steps_.empty() || steps_.back().number != number) steps_.push_back({number, Duration(0)});
  steps_.back().time += counted;
  used_ += counted;
}

void SlidingHour::expire(Instant now) {
  while (!steps_.empty() && end_of(steps_.front()) <= now) {
    used_ -= steps_.front().time;
    steps_.pop_front();
  }
}

Duration SlidingHour::used_at(Instant now) const {
  Duration used = used_;
  for (const Step& step : steps_) {
    if (end_of(step) > now) break;
    used -= step.time;
  }
  return used;
}

Instant SlidingHour::when_below(Duration limit, Duration more, Instant now) const {
  Duration left = used_ + std::clamp<Duration>(more, Duration(0), kMostUsed);
  if (left < limit) return now;
  for (const Step& step : steps_) {
    left -= step.time;
    if (left < limit) return std::max(now, end_of(step));
  }
  return kNever;
}

void SlidingHour::archive(StateArchive& archive) {
  std::vector<Step> steps(steps_.begin(), steps_.end());
  archive.list(steps, [&](Step& step) {
    archive.field(step.number);
    archive.field(step.time);
  });
  if (!archive.reading()) return;
  steps_.clear();
  used_ = {};
  for (const Step& step : steps) {
    // As add() makes them.
    archive.expect(step.time > Duration(0) && step.time < kMostUsed && used_ < kMostUsed);
    archive.expect(step.number < static_cast<uint64_t>(Duration::max() / kStep) / 2);
    archive.expect(steps_.empty() || steps_.back().number < step.number);
    if (!archive.ok()) return;
    steps_.push_back(step);
    used_ += step.time;
  }
}

}  // namespace lambent::scheduling
