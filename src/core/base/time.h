// Durations, instants and the Clock interface: the only access to the time of day.
// Durations and instants are values; a Clock may be read from any thread.
#pragma once

#include <chrono>
#include <cstdint>

namespace lambent {

using Duration = std::chrono::nanoseconds;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// A point on a monotonic clock whose zero means nothing: only differences do. Real or virtual.
struct MonotonicTimeline {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<MonotonicTimeline, Duration>;
  static constexpr bool is_steady = true;
};
using Instant = MonotonicTimeline::time_point;

constexpr Instant kNever = Instant(Duration::max());

constexpr double to_seconds(Duration duration) {
  return static_cast<double>(duration.count()) * 1e-9;
}
constexpr double to_milliseconds(Duration duration) {
  return static_cast<double>(duration.count()) * 1e-6;
}
constexpr Duration from_seconds(double amount) {
  return Duration(static_cast<int64_t>(amount * 1e9));
}

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() const = 0;
  // Time since the Unix epoch, for dates that people or other machines read; may step.
  virtual Duration wall_now() const = 0;
};

class SystemClock final : public Clock {
 public:
  Instant now() const override;
  Duration wall_now() const override;
};

// A clock that stands still until a test turns it.
class FakeClock final : public Clock {
 public:
  Instant now() const override { return now_; }
  Duration wall_now() const override { return wall_start_ + now_.time_since_epoch(); }
  void advance(Duration by) { now_ += by; }
  void set(Instant instant) { now_ = instant; }

 private:
  Instant now_{};
  Duration wall_start_ = std::chrono::hours(24 * 365 * 50);
};

}  // namespace lambent
