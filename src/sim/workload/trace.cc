#include "sim/workload/trace.h"

#include <algorithm>
#include <cstdio>

#include "sim/workload/time_text.h"

namespace lambent::workload {
namespace {

class VectorSource final : public ArrivalSource {
 public:
  explicit VectorSource(std::vector<Arrival> arrivals) : arrivals_(std::move(arrivals)) {}

  std::optional<Arrival> next() override {
    if (next_ == arrivals_.size()) return std::nullopt;
    return arrivals_[next_++];
  }

 private:
  std::vector<Arrival> arrivals_;
  size_t next_ = 0;
};

class WindowSource final : public ArrivalSource {
 public:
  WindowSource(std::unique_ptr<ArrivalSource> source, Duration start, Duration end,
               double rate_scale)
      : source_(std::move(source)), start_(start), end_(end), rate_scale_(rate_scale) {}

  std::optional<Arrival> next() override {
    auto arrival = source_->next();
    while (arrival && arrival->at < start_) arrival = source_->next();
    if (!arrival || arrival->at >= end_) return std::nullopt;
    arrival->at = from_seconds(to_seconds(arrival->at - start_) / rate_scale_);
    return arrival;
  }
  std::optional<Error> failure() const override { return source_->failure(); }

 private:
  std::unique_ptr<ArrivalSource> source_;
  Duration start_;
  Duration end_;
  double rate_scale_;
};

}  // namespace

Result<Duration> length_at_rate(Duration length, double rate_scale, const std::string& file) {
  const double length_s = to_seconds(length) / rate_scale;
  if (length_s <= kMostSeconds) return from_seconds(length_s);
  char text[160];
  std::snprintf(text, sizeof(text),
                ": %.6g s of it would last %.3g s with --rate-scale %g, more than the %.0e s that "
                "fit; choose a higher rate or a shorter --duration",
                to_seconds(length), length_s, rate_scale, kMostSeconds);
  return Error{ErrorCode::kInvalidArgument, file + text};
}

std::unique_ptr<ArrivalSource> window_of(std::unique_ptr<ArrivalSource> source, Duration start,
                                         Duration end, double rate_scale) {
  return std::make_unique<WindowSource>(std::move(source), start, end, rate_scale);
}

std::unique_ptr<ArrivalSource> source_of(std::vector<Arrival> arrivals) {
  std::sort(arrivals.begin(), arrivals.end());
  return std::make_unique<VectorSource>(std::move(arrivals));
}

std::vector<Arrival> drain(ArrivalSource& source) {
  std::vector<Arrival> all;
  while (const auto arrival = source.next()) all.push_back(*arrival);
  return all;
}

}  // namespace lambent::workload
