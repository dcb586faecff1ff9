#include "decide/scheduling/infless_scaler.h"

#include <algorithm>
#include <cmath>

namespace lambent::scheduling {

std::optional<RateRange> rates_of(const InstanceShape& shape, Duration slo) {
  if (shape.execution <= Duration(0) || shape.execution > slo) return std::nullopt;
  const double most = shape.batch / to_seconds(shape.execution);
  if (shape.batch == 1) return RateRange{0, most};
  // The first of a batch waits for the last of it, and then for the batch before.
  if (2 * shape.execution > slo) return std::nullopt;
  return RateRange{shape.batch / to_seconds(slo - shape.execution), most};
}

void RecentRate::count(Instant now) {
  turn_to(now);
  ++counts_[static_cast<size_t>(now_ % kSlots)];
}

double RecentRate::per_second(Instant now) {
  turn_to(now);
  uint64_t sum = 0;
  for (const uint64_t count : counts_) sum += count;
  return static_cast<double>(sum) / to_seconds(slot_ * kSlots);
}

void RecentRate::turn_to(Instant now) {
  const int64_t slot = now.time_since_epoch() / slot_;
  for (int64_t turned = 0; now_ < slot && turned < kSlots; ++turned) {
    ++now_;
    counts_[static_cast<size_t>(now_ % kSlots)] = 0;
  }
  now_ = std::max(now_, slot);
}

InflessScaler::InflessScaler(std::vector<InstanceShape> shapes, InflessScalerOptions options)
    : shapes_(std::move(shapes)),
      options_(options),
      rate_(options.rate_window),
      idle_windows_(options.idle) {
  for (const InstanceShape& shape : shapes_) ranges_.push_back(rates_of(shape, options_.slo));
  const auto keeps_slo = [](const std::optional<RateRange>& range) { return range.has_value(); };
  if (std::ranges::any_of(ranges_, keeps_slo) || shapes_.empty()) return;
  // A function that cannot keep its SLO is served as soon as it can be.
  const auto soonest = std::ranges::min_element(shapes_, std::less(), &InstanceShape::execution);
  ranges_[static_cast<size_t>(soonest - shapes_.begin())] =
      RateRange{0, soonest->batch / to_seconds(soonest->execution)};
}

void InflessScaler::arrived(Instant now) {
  rate_.count(now);
  if (!idle_since_) return;
  idle_windows_.learn(now - *idle_since_, now);
  idle_since_.reset();
}

void InflessScaler::idle(Instant now) {
  if (idle_since_) return;
  idle_since_ = now;
  windows_ = idle_windows_.windows(now);
}

double InflessScaler::efficiency_of(size_t shape, double rate, Bytes device_memory) const {
  if (!ranges_[shape] || ranges_[shape]->least > rate) return 0;
  const InstanceShape& one = shapes_[shape];
  const double memory =
      static_cast<double>(one.memory.count) / static_cast<double>(device_memory.count);
  return std::min(ranges_[shape]->most, rate) / (one.share + options_.memory_weight * memory);
}

// Those that serve most for their share come first; of the rest as many as the rate needs.
InflessScaler::Ranked InflessScaler::ranked(std::span<const ScaledInstance> instances,
                                            double rate) const {
  Ranked all;
  for (const ScaledInstance& instance : instances) all.instances.push_back(&instance);
  const auto worth = [&](const ScaledInstance* one) {
    return range_of(one->shape).most / shapes_[one->shape].share;
  };
  std::ranges::stable_sort(all.instances, std::greater(), worth);
  double least = 0;
  for (const ScaledInstance* one : all.instances) {
    least += range_of(one->shape).least;
    all.most += range_of(one->shape).most;
  }
  all.needed = all.instances.size();
  double most = all.most;
  while (all.needed > 1) {
    const RateRange last = range_of(all.instances[all.needed - 1]->shape);
    const bool is_low = rate < options_.release * least + (1 - options_.release) * most;
    if (!is_low || most - last.most < rate) break;
    most -= last.most;
    least -= last.least;
    --all.needed;
  }
  return all;
}

void InflessScaler::start_for(double rate, std::vector<ScalerDevice> devices,
                              ScalerStep& step) const {
  while (rate > 0 && step.starts.size() < kMostStarts) {
    struct Best {
      ScalerStep::Start start;
      double efficiency = 0, free_share = 0;
    };
    std::optional<Best> best;
    for (size_t shape = 0; shape < shapes_.size(); ++shape) {
      for (uint32_t device = 0; device < devices.size(); ++device) {
        const ScalerDevice& on = devices[device];
        if (on.share + 1e-9 < shapes_[shape].share) continue;
        if (on.free < shapes_[shape].memory + on.weights) continue;
        const double efficiency = efficiency_of(shape, rate, on.memory);
        if (efficiency <= 0) continue;
        // Of devices alike the fullest, so that large instances find room elsewhere.
        const bool is_better = !best || efficiency > best->efficiency ||
                               (efficiency == best->efficiency && on.share < best->free_share);
        if (is_better) best = Best{{shape, device}, efficiency, on.share};
      }
    }
    if (!best) break;
    ScalerDevice& on = devices[best->start.device];
    on.share -= shapes_[best->start.shape].share;
    on.free = on.free - (shapes_[best->start.shape].memory + on.weights);
    on.weights = Bytes(0);
    step.starts.push_back(best->start);
    rate -= range_of(best->start.shape).most;
  }
  step.unserved = std::max(0.0, rate);
}

void InflessScaler::stop_idle(const Ranked& ranked, size_t kept, Duration spare_for, Instant now,
                              ScalerStep& step) const {
  for (size_t i = kept; i < ranked.instances.size(); ++i) {
    const ScaledInstance& one = *ranked.instances[i];
    if (one.busy) continue;
    const Instant goes = one.idle_since + spare_for;
    if (goes <= now) {
      step.stops.push_back(one.id);
    } else {
      step.again = std::min(step.again, goes);
    }
  }
}

ScalerStep InflessScaler::step(std::span<const ScaledInstance> instances,
                               std::span<const ScalerDevice> devices, Instant now) {
  ScalerStep step;
  const double rate = options_.headroom * rate_.per_second(now);
  const Ranked all = ranked(instances, rate);
  if (idle_since_) {
    const Instant returns = *idle_since_ + windows_.returns, goes = *idle_since_ + windows_.goes;
    const bool is_away = windows_.returns > Duration(0) && now < returns;
    if (is_away || now >= goes) {
      stop_idle(all, 0, Duration(0), now, step);
      if (is_away) step.again = std::min(step.again, returns);
      return step;
    }
    if (instances.empty() && windows_.returns > Duration(0)) {
      start_for(1 / to_seconds(options_.rate_window), {devices.begin(), devices.end()}, step);
    }
    stop_idle(all, 1, options_.spare_for, now, step);
    step.again = std::min(step.again, goes);
    return step;
  }
  stop_idle(all, std::max<size_t>(1, all.needed), options_.spare_for, now, step);
  // Who was called a while ago and still waits is owed an instance at any rate.
  const double owed =
      instances.empty() ? std::max(rate, 1 / to_seconds(options_.rate_window)) : rate;
  if (owed > all.most) start_for(owed - all.most, {devices.begin(), devices.end()}, step);
  return step;
}

}  // namespace lambent::scheduling
