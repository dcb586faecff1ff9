#include "sim/sweep/sweep_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/workload/csv.h"

namespace lambent::sweep {

using workload::csv_field;

std::string csv_of(const Grid& grid, const std::vector<Point>& points) {
  std::string text;
  for (const Axis& axis : grid.axes) text += csv_field(axis.name) + ",";
  text += "seeds";
  for (const Metric& metric : metrics()) {
    text += "," + std::string(metric.name) + "," + std::string(metric.name) + "_half_width";
  }
  text += "\n";
  const auto number = [](double value) { return nlohmann::json(value).dump(); };
  for (const Point& point : points) {
    for (const std::string& value : point.values) text += csv_field(value) + ",";
    size_t seeds = 0;
    for (const Estimate& estimate : point.estimates) seeds = std::max(seeds, estimate.count);
    text += std::to_string(seeds);
    for (const Estimate& estimate : point.estimates) {
      text += "," + (estimate.count > 0 ? number(estimate.mean) : "") + "," +
              (estimate.half_width ? number(*estimate.half_width) : "");
    }
    text += "\n";
  }
  return text;
}

std::string json_of(const Grid& grid, const std::vector<Point>& points,
                    const std::set<std::string>& assumptions) {
  auto all = nlohmann::ordered_json::array();
  for (const Point& point : points) {
    nlohmann::ordered_json values = nlohmann::ordered_json::object();
    for (size_t i = 0; i < grid.axes.size(); ++i) values[grid.axes[i].name] = point.values[i];
    nlohmann::ordered_json figures = nlohmann::ordered_json::object();
    for (size_t i = 0; i < metrics().size(); ++i) {
      const Estimate& estimate = point.estimates[i];
      if (estimate.count == 0) continue;
      nlohmann::ordered_json one = {{"mean", estimate.mean}, {"seeds", estimate.count}};
      if (estimate.half_width) one["half_width"] = *estimate.half_width;
      figures[std::string(metrics()[i].name)] = one;
    }
    all.push_back({{"point", values}, {"figures", figures}});
  }
  const nlohmann::ordered_json json = {
      {"simulated", true}, {"points", all}, {"assumptions", assumptions}};
  return json.dump(1) + "\n";
}

bool seeds_change_nothing(const std::vector<Point>& points) {
  return std::all_of(points.begin(), points.end(), [](const Point& point) {
    return std::all_of(point.estimates.begin(), point.estimates.end(), [](const auto& estimate) {
      return !estimate.half_width || *estimate.half_width < 1e-9 * std::max(1.0, estimate.mean);
    });
  });
}

}  // namespace lambent::sweep
