#include "decide/pipeline/profile.h"

#include <algorithm>
#include <cmath>

#include "decide/pipeline/limits.h"

namespace lambent::pipeline {

namespace {

// The shape with a figure that is nearest by its number of multiprocessors; none if none has one.
template <typename Figures>
const SliceShape* nearest_with(const Figures& figures, const SliceShape& shape,
                               const std::vector<SliceShape>& shapes) {
  const SliceShape* nearest = nullptr;
  const auto distance = [&](const SliceShape& other) {
    return std::abs(static_cast<double>(other.multiprocessors) - shape.multiprocessors);
  };
  for (const SliceShape& other : shapes) {
    if (other.multiprocessors == 0 || !figures.contains(other.name)) continue;
    // Of two as near the smaller, so that the order of the list does not matter.
    if (!nearest || distance(other) < distance(*nearest) ||
        (distance(other) == distance(*nearest) &&
         other.multiprocessors < nearest->multiprocessors)) {
      nearest = &other;
    }
  }
  return nearest;
}

}  // namespace

std::optional<Duration> time_on(const ComponentProfile& profile, const SliceShape& shape,
                                const std::vector<SliceShape>& shapes) {
  const auto measured = profile.time_by_shape.find(shape.name);
  if (measured != profile.time_by_shape.end()) return measured->second;
  const SliceShape* nearest = nearest_with(profile.time_by_shape, shape, shapes);
  if (!nearest || shape.multiprocessors == 0) return std::nullopt;
  const double scale = static_cast<double>(nearest->multiprocessors) / shape.multiprocessors;
  const Duration time = profile.time_by_shape.at(nearest->name);
  const double most = static_cast<double>(limits::kTime.count());
  return Duration(std::llround(std::min(static_cast<double>(time.count()) * scale, most)));
}

double batch_factor(const ComponentProfile& profile, const SliceShape& shape,
                    const std::vector<SliceShape>& shapes, size_t requests) {
  const auto count = static_cast<double>(requests);
  if (requests < 2 || profile.batch_times_by_shape.empty()) return count;
  const auto same = profile.batch_times_by_shape.find(shape.name);
  const SliceShape* nearest = same == profile.batch_times_by_shape.end()
                                  ? nearest_with(profile.batch_times_by_shape, shape, shapes)
                                  : &shape;
  if (!nearest) return count;
  const auto alone = profile.time_by_shape.find(nearest->name);
  if (alone == profile.time_by_shape.end() || alone->second <= Duration(0)) return count;
  double size = 1, factor = 1;  // of the measured size below
  for (const auto& [larger, time] : profile.batch_times_by_shape.at(nearest->name)) {
    // A batch that seems to take less than a smaller one is a bad reading.
    const double its = std::max(factor, to_seconds(time) / to_seconds(alone->second));
    if (requests <= larger) return factor + (its - factor) * (count - size) / (larger - size);
    size = larger;
    factor = its;
  }
  return factor * count / size;
}

}  // namespace lambent::pipeline
