#include "decide/pipeline/profile.h"

#include <algorithm>
#include <cmath>

#include "decide/pipeline/limits.h"

namespace lambent::pipeline {

std::optional<Duration> time_on(const ComponentProfile& profile, const SliceShape& shape,
                                const std::vector<SliceShape>& shapes) {
  const auto measured = profile.time_by_shape.find(shape.name);
  if (measured != profile.time_by_shape.end()) return measured->second;
  const SliceShape* nearest = nullptr;
  const auto distance = [&](const SliceShape& other) {
    return std::abs(static_cast<double>(other.multiprocessors) - shape.multiprocessors);
  };
  for (const SliceShape& other : shapes) {
    if (other.multiprocessors == 0 || !profile.time_by_shape.contains(other.name)) continue;
    // Of two as near the smaller, so that the order of the list does not matter.
    if (!nearest || distance(other) < distance(*nearest) ||
        (distance(other) == distance(*nearest) &&
         other.multiprocessors < nearest->multiprocessors)) {
      nearest = &other;
    }
  }
  if (!nearest || shape.multiprocessors == 0) return std::nullopt;
  const double scale = static_cast<double>(nearest->multiprocessors) / shape.multiprocessors;
  const Duration time = profile.time_by_shape.at(nearest->name);
  const double most = static_cast<double>(limits::kTime.count());
  return Duration(std::llround(std::min(static_cast<double>(time.count()) * scale, most)));
}

}  // namespace lambent::pipeline
