#include "sim/workload/report_charts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/workload/chart_axes.h"
#include "sim/workload/svg.h"

namespace lambent::workload {
namespace {

std::vector<double> sorted_latencies(const RunFile& run) {
  std::vector<double> latencies;
  for (const RunRecord& record : run.records) {
    if (record.sample.succeeded) latencies.push_back(record.sample.latency_s);
  }
  std::sort(latencies.begin(), latencies.end());
  return latencies;
}

struct Row {
  std::string name;
  std::string entry;
  double warm_s = 0;
  uint64_t count = 0;
  std::vector<const FunctionSummary*> of_run;  // null: the run does not have it
};

// The functions of all runs by name: the most invoked ones, the longest first.
std::vector<Row> function_rows(const std::vector<ShownRun>& runs) {
  std::vector<Row> rows;
  for (size_t r = 0; r < runs.size(); ++r) {
    const auto& functions = runs[r].summary.functions;
    for (size_t i = 0; i < functions.size(); ++i) {
      const FunctionSummary& function = functions[i];
      auto row = std::find_if(rows.begin(), rows.end(),
                              [&](const Row& each) { return each.name == function.name; });
      if (row == rows.end()) {
        const auto& entry = runs[r].file->header.functions[i].catalogue_entry;
        rows.push_back({.name = function.name, .entry = entry, .warm_s = function.warm_s});
        rows.back().of_run.resize(runs.size());
        row = rows.end() - 1;
      }
      row->count += function.count;
      if (function.count > 0) row->of_run[r] = &function;
    }
  }
  std::erase_if(rows, [](const Row& row) { return row.count == 0; });
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.count > b.count; });
  if (rows.size() > kShownFunctions) rows.resize(kShownFunctions);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.warm_s > b.warm_s; });
  return rows;
}

std::string short_name(const Row& row) {
  const std::string name = row.name.size() > 10 ? row.name.substr(0, 9) + "…" : row.name;
  return row.entry.empty() ? name : row.entry + " " + name;
}

}  // namespace

std::string latency_chart(const std::vector<ShownRun>& runs) {
  Drawing drawing(kWidth, kHeight, "Distribution of latencies by run");
  std::vector<std::vector<double>> latencies;
  double least = INFINITY;
  double most = 0;
  for (const ShownRun& run : runs) {
    latencies.push_back(sorted_latencies(*run.file));
    if (latencies.back().empty()) continue;
    least = std::min(least, latencies.back().front());
    most = std::max(most, latencies.back().back());
  }
  if (most <= 0) return "";
  const Scale x(std::max(least, most * 1e-6), most, kLeft, kRight, true);
  const Scale y(0, 100, kBottom, kTop, false);
  axis_left(drawing, y, [](double percent) { return fixed(percent, 0) + " %"; });
  axis_below(drawing, x, kTop, kBottom, "latency, modelled (logarithmic)");
  constexpr size_t kPoints = 400;
  for (size_t r = 0; r < runs.size(); ++r) {
    const auto& sorted = latencies[r];
    std::vector<std::pair<double, double>> points;
    const size_t count = std::min(kPoints, sorted.size());
    for (size_t i = 0; i < count; ++i) {
      const size_t rank = count == 1 ? 0 : i * (sorted.size() - 1) / (count - 1);
      const double share = static_cast<double>(rank + 1) / static_cast<double>(sorted.size());
      points.emplace_back(x.pixel(sorted[rank]), y.pixel(share * 100));
    }
    drawing.polyline(points, "curve " + runs[r].colour, runs[r].label);
  }
  return std::move(drawing).finish();
}

std::string function_chart(const std::vector<ShownRun>& runs) {
  const std::vector<Row> rows = function_rows(runs);
  if (rows.empty()) return "";
  constexpr double kNames = 150;
  const double bar = runs.size() > 4 ? 4 : 6;
  const double step = bar * static_cast<double>(runs.size()) + 9;
  const double bottom = kTop + step * static_cast<double>(rows.size());
  double least = INFINITY;
  double most = 0;
  for (const Row& row : rows) {
    for (const FunctionSummary* function : row.of_run) {
      if (function == nullptr) continue;
      least = std::min(least, function->mean_s);
      most = std::max(most, function->mean_s);
    }
    if (row.warm_s > 0) least = std::min(least, row.warm_s);
  }
  // Means that differ by more than the eye can tell lengths apart are shown by their logarithm.
  const bool logarithmic = most > 20 * least;
  const Scale x(logarithmic ? std::max(least, most * 1e-6) / 2 : 0, most, kNames, kRight,
                logarithmic);
  Drawing drawing(kWidth, bottom + 44, "Mean latency by function and run");
  axis_below(drawing, x, kTop, bottom,
             logarithmic ? "mean latency, modelled (logarithmic); mark: by itself and warm"
                         : "mean latency, modelled; mark: by itself and warm");
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const double top = kTop + step * static_cast<double>(i) + 4;
    const double all = bar * static_cast<double>(runs.size());
    drawing.text(kNames - 8, top + all / 2 + 4, short_name(row), "end", "tick");
    for (size_t r = 0; r < runs.size(); ++r) {
      if (row.of_run[r] == nullptr) continue;
      const double mean_s = row.of_run[r]->mean_s;
      drawing.rectangle(kNames, top + bar * static_cast<double>(r), x.pixel(mean_s) - kNames,
                        bar - 1, "bar " + runs[r].colour,
                        runs[r].label + ", " + row.name + ": mean " + seconds_label(mean_s) +
                            " of " + std::to_string(row.of_run[r]->count));
    }
    if (row.warm_s > 0) {
      drawing.line(x.pixel(row.warm_s), top - 2, x.pixel(row.warm_s), top + all + 1, "mark");
    }
  }
  return std::move(drawing).finish();
}

std::string breakdown_chart(const std::vector<ShownRun>& runs) {
  constexpr double kNames = 150;
  constexpr double kStep = 34;
  constexpr double kLabel = 78;
  double most = 0;
  for (const ShownRun& run : runs) most = std::max(most, run.summary.mean_s);
  if (most <= 0) return "";
  const double bottom = kTop + kStep * static_cast<double>(runs.size());
  Drawing drawing(kWidth, bottom + 44, "Where the mean latency went, by run");
  const Scale x(0, most, kNames, kRight - kLabel, false);
  axis_below(drawing, x, kTop, bottom, "mean latency, modelled");
  for (size_t r = 0; r < runs.size(); ++r) {
    const Summary& summary = runs[r].summary;
    const double top = kTop + kStep * static_cast<double>(r) + 6;
    const double known =
        summary.queue_mean_s + summary.cold_mean_s + summary.memory_mean_s + summary.run_mean_s;
    const std::pair<const char*, double> parts[] = {
        {"queue", summary.queue_mean_s},
        {"cold", summary.cold_mean_s},
        {"memory", summary.memory_mean_s},
        {"run", summary.run_mean_s},
        {"rest", std::max(0.0, summary.mean_s - known)}};
    drawing.text(kNames - 8, top + 15, runs[r].label.substr(0, 22), "end", "tick");
    double until = 0;
    for (const auto& [name, part_s] : parts) {
      if (part_s <= 0) continue;
      const double from = x.pixel(until);
      until += part_s;
      if (x.pixel(until) - from < 0.2) continue;
      drawing.rectangle(from, top, x.pixel(until) - from, 22, std::string("part ") + name,
                        runs[r].label + ", " + name + ": " + seconds_label(part_s));
    }
    drawing.text(x.pixel(until) + 6, top + 15, seconds_label(summary.mean_s), "start", "value");
  }
  return std::move(drawing).finish();
}

}  // namespace lambent::workload
