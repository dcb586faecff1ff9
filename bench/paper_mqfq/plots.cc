#include "bench/paper_mqfq/plots.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bench/json.h"
#include "sim/workload/svg.h"

namespace lambent::paper_mqfq {

using bench::number;
using workload::Drawing;
using workload::Scale;

namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 340;
constexpr double kLeft = 66;
constexpr double kRight = kWidth - 190;  // the legend is beside it
constexpr double kTop = 50;
constexpr double kBottom = kHeight - 46;

constexpr const char* kStyle =
    "<style>text{font:12px system-ui,sans-serif;fill:#1f2937}.title{font-size:13px;font-weight:600}"
    ".tick,.caption{fill:#4b5563}.paper{fill:#fff}.grid{stroke:#e5e7eb}.axis{stroke:#6b7280}"
    ".frame{fill:none;stroke:#111827;stroke-width:2}"
    ".l0,.l1,.l2,.l3,.l4,.l5,.l6,.l7{fill:none;stroke-width:2}"
    ".l0{stroke:#0b62c4}.l1{stroke:#d9480f}.l2{stroke:#0d8a5f}.l3{stroke:#9b3fb5}"
    ".l4{stroke:#a37600}.l5{stroke:#0891a8}.l6{stroke:#c2255c}.l7{stroke:#4b5563}"
    ".b0{fill:#0b62c4}.b1{fill:#d9480f}.b2{fill:#0d8a5f}.b3{fill:#9b3fb5}"
    ".b4{fill:#a37600}.b5{fill:#0891a8}.b6{fill:#c2255c}.b7{fill:#4b5563}"
    ".h0{fill:#eff6ff}.h1{fill:#dbeafe}.h2{fill:#c7ddfc}.h3{fill:#b1cffa}.h4{fill:#9bc1f8}"
    ".h5{fill:#84b2f4}.h6{fill:#6ea3ef}.h7{fill:#5a94e8}.h8{fill:#4c86dd}.h9{fill:#4179cf}"
    ".h10{fill:#3a6fc2}</style>\n";

std::string css(const char* letter, size_t index) { return letter + std::to_string(index % 8); }

Drawing started(double width, double height, const std::string& title) {
  Drawing drawing(width, height, title + " (simulated)");
  drawing.rectangle(0, 0, width, height, "paper", title);
  drawing.text(12, 20, title + " (simulated)", "start", "title");
  return drawing;
}

// The style goes in after the first line, which opens the picture.
std::string finished(Drawing drawing) {
  std::string svg = std::move(drawing).finish();
  svg.insert(svg.find('\n') + 1, kStyle);
  return svg;
}

struct Range {
  double least = 1e300, most = -1e300;
  void take(double value) {
    if (!std::isfinite(value)) return;
    least = std::min(least, value);
    most = std::max(most, value);
  }
};

void draw_up(Drawing& drawing, const Scale& scale, const std::string& title) {
  for (const double tick : scale.ticks()) {
    drawing.line(kLeft, scale.pixel(tick), kRight, scale.pixel(tick), "grid");
    drawing.text(kLeft - 8, scale.pixel(tick) + 4, number(tick), "end", "tick");
  }
  drawing.text(kLeft, kTop - 8, title, "start", "caption");
}

void draw_legend(Drawing& drawing, size_t index, const std::string& name) {
  const double y = kTop + 10 + 18 * static_cast<double>(index);
  drawing.rectangle(kRight + 14, y - 8, 10, 10, css("b", index), name);
  drawing.text(kRight + 30, y + 1, name, "start", "caption");
}

}  // namespace

std::string heat_map(const HeatMap& map) {
  constexpr double kCell = 34, kCellWidth = 84, kSide = 80, kHead = 66;
  const double width =
      std::max(560.0, kSide + kCellWidth * static_cast<double>(map.columns.size()) + 16);
  const double height = kHead + kCell * static_cast<double>(map.rows.size()) + 12;
  Drawing drawing = started(width, height, map.title);
  drawing.text(kSide, kHead - 26, map.across, "start", "caption");
  drawing.text(kSide - 10, kHead - 8, map.down, "end", "caption");
  Range range;
  for (const auto& row : map.values) {
    for (const double value : row) range.take(value);
  }
  for (size_t c = 0; c < map.columns.size(); ++c) {
    drawing.text(kSide + kCellWidth * (static_cast<double>(c) + 0.5), kHead - 8, map.columns[c],
                 "middle", "tick");
  }
  for (size_t r = 0; r < map.rows.size(); ++r) {
    const double y = kHead + kCell * static_cast<double>(r);
    drawing.text(kSide - 10, y + kCell / 2 + 4, map.rows[r], "end", "tick");
    for (size_t c = 0; c < map.columns.size(); ++c) {
      const double value = map.values[r][c];
      const double x = kSide + kCellWidth * static_cast<double>(c);
      const double share = range.most > range.least
                               ? std::log(value / range.least) / std::log(range.most / range.least)
                               : 0;
      drawing.rectangle(x + 1, y + 1, kCellWidth - 2, kCell - 2,
                        "h" + std::to_string(std::lround(10 * share)), number(value));
      if (value == range.least) {
        drawing.rectangle(x + 2, y + 2, kCellWidth - 4, kCell - 4, "frame", "the best");
      }
      drawing.text(x + kCellWidth / 2, y + kCell / 2 + 4,
                   bench::number(std::round(value * 100) / 100), "middle", "value");
    }
  }
  return finished(std::move(drawing));
}

std::string line_chart(const LineChart& chart) {
  Range across, up;
  for (const auto& line : chart.lines) {
    for (const auto& [x, y] : line.points) {
      across.take(x);
      up.take(y);
    }
  }
  if (!chart.logarithmic_up) up.take(0);
  Drawing drawing = started(kWidth, kHeight, chart.title);
  const Scale x_scale(across.least, across.most, kLeft, kRight, chart.logarithmic_across);
  const Scale y_scale(up.least, up.most * 1.05, kBottom, kTop, chart.logarithmic_up);
  draw_up(drawing, y_scale, chart.up);
  for (const double tick : x_scale.ticks()) {
    drawing.text(x_scale.pixel(tick), kBottom + 16, number(tick), "middle", "tick");
  }
  drawing.line(kLeft, kBottom, kRight, kBottom, "axis");
  drawing.text(kRight, kBottom + 34, chart.across, "end", "caption");
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    std::vector<std::pair<double, double>> pixels;
    for (const auto& [x, y] : chart.lines[i].points) {
      pixels.emplace_back(x_scale.pixel(x), y_scale.pixel(y));
      drawing.rectangle(pixels.back().first - 2, pixels.back().second - 2, 4, 4, css("b", i),
                        chart.lines[i].name + ": " + number(y) + " at " + number(x));
    }
    drawing.polyline(pixels, css("l", i), chart.lines[i].name);
    draw_legend(drawing, i, chart.lines[i].name);
  }
  return finished(std::move(drawing));
}

std::string bar_chart(const BarChart& chart) {
  Range up;
  for (const auto& series : chart.series) {
    for (const double value : series.values) up.take(value);
  }
  Drawing drawing = started(kWidth, kHeight, chart.title);
  const Scale scale(up.least * 0.7, up.most * 1.1, kBottom, kTop, true);
  draw_up(drawing, scale, chart.up + " (logarithmic)");
  drawing.line(kLeft, kBottom, kRight, kBottom, "axis");
  const double group = (kRight - kLeft) / static_cast<double>(chart.groups.size());
  const double bar = group * 0.8 / static_cast<double>(chart.series.size());
  for (size_t g = 0; g < chart.groups.size(); ++g) {
    const double x = kLeft + group * static_cast<double>(g);
    drawing.text(x + group / 2, kBottom + 16, chart.groups[g], "middle", "tick");
    for (size_t s = 0; s < chart.series.size(); ++s) {
      const double value = chart.series[s].values[g];
      if (!std::isfinite(value)) continue;
      drawing.rectangle(x + group * 0.1 + bar * static_cast<double>(s), scale.pixel(value), bar - 1,
                        kBottom - scale.pixel(value), css("b", s),
                        chart.series[s].name + ", " + chart.groups[g] + ": " + number(value));
    }
  }
  for (size_t s = 0; s < chart.series.size(); ++s) draw_legend(drawing, s, chart.series[s].name);
  return finished(std::move(drawing));
}

void save_plot(const std::string& folder, const std::string& name, const std::string& svg) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const std::string path = folder + "/" + name + ".svg";
  if (std::ofstream(path) << svg) return;
  std::fprintf(stderr, "paper_mqfq_bench: %s cannot be written\n", path.c_str());
  std::exit(1);
}

}  // namespace lambent::paper_mqfq
