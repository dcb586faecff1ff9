#include "decide/scheduling/sliding_hour.h"

#include <algorithm>

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

void SlidingHour::remember(Duration time, Duration age, Instant now) {
  expire(now);
  const Duration counted = std::clamp<Duration>(time, Duration(0), kMostAdded);
  if (counted == Duration(0) || used_ > kMostUsed || age >= kHour) return;
  const Duration ago = std::clamp<Duration>(age, Duration(0), now.time_since_epoch());
  const uint64_t number = number_of(now - ago);
  auto at = std::ranges::lower_bound(steps_, number, {}, &Step::number);
  if (at == steps_.end() || at->number != number) at = steps_.insert(at, {number, Duration(0)});
  at->time += counted;
  used_ += counted;
}

SlidingHour::Used SlidingHour::used_in(const Step& step) {
  return {Instant(kStep * static_cast<int64_t>(step.number) + kStep / 2), step.time};
}

std::vector<SlidingHour::Used> SlidingHour::all_used() const {
  std::vector<Used> all;
  for (const Step& step : steps_) all.push_back(used_in(step));
  return all;
}

std::optional<SlidingHour::Used> SlidingHour::last_used() const {
  if (steps_.empty()) return std::nullopt;
  return used_in(steps_.back());
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
