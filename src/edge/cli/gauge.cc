#include "edge/cli/gauge.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace lambent::cli {

std::optional<double> mean_of_gauge(std::string_view metrics, std::string_view name) {
  double sum = 0;
  int count = 0;
  while (!metrics.empty()) {
    const size_t end = std::min(metrics.find('\n'), metrics.size());
    std::string_view line = metrics.substr(0, end);
    metrics.remove_prefix(std::min(end + 1, metrics.size()));
    if (!line.starts_with(name)) continue;
    line.remove_prefix(name.size());
    if (line.starts_with('{')) {
      const size_t close = line.rfind('}');
      if (close == std::string_view::npos) continue;
      line.remove_prefix(close + 1);
    }
    if (!line.starts_with(' ')) continue;
    line.remove_prefix(1);
    double value = 0;
    const auto [stop, code] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (code != std::errc() || !std::isfinite(value)) continue;
    sum += value;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

}  // namespace lambent::cli
