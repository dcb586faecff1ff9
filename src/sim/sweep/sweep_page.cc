#include "sim/sweep/sweep_page.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "sim/workload/page.h"
#include "sim/workload/svg.h"

namespace lambent::sweep {
namespace {

using workload::Drawing;
using workload::markup_escape;

constexpr size_t kMostTableRows = 5'000;

std::string short_number(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", number);
  return text;
}

// Values of the axes that are not drawn: a map for each.
std::string rest_of(const SweepPage& page, const Grid& grid, const Point& point) {
  std::string text;
  for (size_t a = 0; a < grid.axes.size(); ++a) {
    if (a == page.across || a == page.down) continue;
    text += (text.empty() ? "" : ", ") + grid.axes[a].name + " " + point.values[a];
  }
  return text;
}

size_t place_in(const Axis& axis, const std::string& value) {
  return static_cast<size_t>(std::find(axis.values.begin(), axis.values.end(), value) -
                             axis.values.begin());
}

struct Range {
  double least = 0;
  double most = 0;
  // 0 to 1; by the logarithm where the values span more than a factor of ten.
  double share(double value) const {
    if (most <= least) return 0;
    if (least > 0 && most > 10 * least) {
      return std::log(value / least) / std::log(most / least);
    }
    return (value - least) / (most - least);
  }
};

// One colour scale for all maps of a metric, so that they can be compared.
Range range_of(size_t metric, const std::vector<Point>& points) {
  Range range;
  bool first = true;
  for (const Point& point : points) {
    const Estimate& estimate = point.estimates[metric];
    if (estimate.count == 0) continue;
    range.least = first ? estimate.mean : std::min(range.least, estimate.mean);
    range.most = first ? estimate.mean : std::max(range.most, estimate.mean);
    first = false;
  }
  return range;
}

std::string heat_map(const SweepPage& page, const Grid& grid, size_t metric, const Range& range,
                     const std::vector<const Point*>& points) {
  constexpr double kLeft = 110;
  constexpr double kTop = 34;
  constexpr double kCellHeight = 34;
  const Axis& across = grid.axes[page.across];
  const Axis& down = grid.axes[page.down];
  const bool one_row = page.across == page.down;
  const size_t rows = one_row ? 1 : down.values.size();
  const double cell_width =
      std::clamp(700.0 / static_cast<double>(across.values.size()), 28.0, 90.0);
  // A page shows a picture as wide as itself: small maps keep the size of their letters.
  const double width =
      std::max(860.0, kLeft + cell_width * static_cast<double>(across.values.size()) + 10);
  const double height = kTop + kCellHeight * static_cast<double>(rows) + 8;
  Drawing drawing(width, height, std::string(metrics()[metric].title) + " as a heat map");
  drawing.text(kLeft, 12, across.name, "start", "caption");
  if (!one_row) drawing.text(kLeft - 8, kTop - 6, down.name, "end", "caption");
  for (size_t i = 0; i < across.values.size(); ++i) {
    drawing.text(kLeft + cell_width * (static_cast<double>(i) + 0.5), 28, across.values[i],
                 "middle", "tick");
  }
  for (size_t i = 0; i < rows && !one_row; ++i) {
    drawing.text(kLeft - 8, kTop + kCellHeight * (static_cast<double>(i) + 0.5) + 4, down.values[i],
                 "end", "tick");
  }
  const bool less = metrics()[metric].less_is_better;
  const Point* best = nullptr;
  for (const Point* point : points) {
    const Estimate& estimate = point->estimates[metric];
    if (estimate.count == 0) continue;
    const double best_so_far = best ? best->estimates[metric].mean : 0;
    if (!best || (less ? estimate.mean < best_so_far : estimate.mean > best_so_far)) best = point;
  }
  for (const Point* point : points) {
    const Estimate& estimate = point->estimates[metric];
    const double x =
        kLeft + cell_width * static_cast<double>(place_in(across, point->values[page.across]));
    const double y =
        kTop +
        (one_row ? 0 : kCellHeight * static_cast<double>(place_in(down, point->values[page.down])));
    if (estimate.count > 0) {
      const int shade = static_cast<int>(std::lround(range.share(estimate.mean) * 10));
      drawing.rectangle(x + 1, y + 1, cell_width - 2, kCellHeight - 2,
                        "heat h" + std::to_string(shade), text_of(estimate));
    }
    if (point == best) {
      drawing.rectangle(x + 2, y + 2, cell_width - 4, kCellHeight - 4, "frame", "the best here");
    }
    drawing.text(x + cell_width / 2, y + kCellHeight / 2 + 4,
                 estimate.count > 0 ? short_number(estimate.mean) : "–", "middle", "value");
  }
  return std::move(drawing).finish();
}

std::string maps_of(const SweepPage& page, const Grid& grid, const std::vector<Point>& points,
                    size_t metric, size_t& drawn) {
  const Range range = range_of(metric, points);
  std::vector<std::pair<std::string, std::vector<const Point*>>> groups;
  for (const Point& point : points) {
    const std::string rest = rest_of(page, grid, point);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& each) { return each.first == rest; });
    if (group == groups.end()) group = groups.insert(groups.end(), {rest, {}});
    group->second.push_back(&point);
  }
  std::string html;
  for (const auto& [rest, members] : groups) {
    if (drawn++ >= kMostMaps) continue;
    if (!rest.empty()) html += "<p>" + markup_escape(rest) + "</p>";
    html += heat_map(page, grid, metric, range, members);
  }
  return html;
}

std::string table_of(const SweepPage& page, const Grid& grid, const std::vector<Point>& points) {
  std::string html = "<div class=\"wide\"><table><thead><tr>";
  for (const Axis& axis : grid.axes) html += "<th>" + markup_escape(axis.name) + "</th>";
  html += "<th>seeds</th>";
  for (const size_t metric : page.metrics) {
    html += "<th>" + std::string(metrics()[metric].title) + "</th>";
  }
  html += "</tr></thead><tbody>\n";
  for (size_t i = 0; i < std::min(points.size(), kMostTableRows); ++i) {
    html += "<tr>";
    for (const std::string& value : points[i].values) {
      html += "<td>" + markup_escape(value) + "</td>";
    }
    html += "<td>" + std::to_string(points[i].estimates[page.metrics.front()].count) + "</td>";
    for (const size_t metric : page.metrics) {
      html += "<td>" + text_of(points[i].estimates[metric]) + "</td>";
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace

std::string text_of(const Estimate& estimate) {
  if (estimate.count == 0) return "-";
  char text[64];
  std::snprintf(text, sizeof(text), "%.4g", estimate.mean);
  std::string shown = text;
  if (!estimate.half_width) return shown;
  std::snprintf(text, sizeof(text), " ± %.2g", *estimate.half_width);
  return shown + text;
}

std::string html_of(const SweepPage& page, const Grid& grid, const std::vector<Point>& points) {
  std::string html = "<p class=\"facts\">" + markup_escape(page.facts) +
                     "</p>\n<div class=\"note\"><strong>These times are simulated.</strong> The "
                     "scheduler decided for modelled functions on modelled devices.</div>\n";
  if (!page.assumptions.empty()) {
    html += "<p>Assumed:</p>\n<ul>";
    for (const std::string& each : page.assumptions) html += "<li>" + markup_escape(each) + "</li>";
    html += "</ul>\n";
  }
  html += "<style>";
  for (int shade = 0; shade <= 10; ++shade) {
    html += ".h" + std::to_string(shade) +
            "{fill-opacity:" + workload::fixed(0.06 + 0.062 * shade, 3) + "}";
  }
  html += "</style>\n";
  size_t drawn = 0;
  for (const size_t metric : page.metrics) {
    html += workload::html_section(
        std::string(metrics()[metric].title),
        "Mean over the seeds; the best of each map is framed. Darker is more, on one scale.",
        maps_of(page, grid, points, metric, drawn));
  }
  if (drawn > kMostMaps) {
    html += "<div class=\"note bad\">" + std::to_string(drawn - kMostMaps) +
            " more maps are not drawn; choose other axes, or fewer figures.</div>\n";
  }
  html += workload::html_section(
      "Every point",
      points.size() > kMostTableRows
          ? "The first " + std::to_string(kMostTableRows) + " of " + std::to_string(points.size())
          : "Mean over the seeds, ± half of its 95 % confidence interval.",
      table_of(page, grid, points));
  return workload::html_page(page.title, html);
}

}  // namespace lambent::sweep
