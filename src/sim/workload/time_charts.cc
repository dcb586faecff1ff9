// The charts of a report that have time as their axis.
#include <algorithm>
#include <cmath>

#include "sim/workload/chart_axes.h"
#include "sim/workload/page.h"
#include "sim/workload/report_charts.h"

namespace lambent::workload {
namespace {

double last_reading_s(const std::vector<ShownRun>& runs) {
  double last = 0;
  for (const ShownRun& run : runs) {
    for (const RunReading& reading : run.file->readings) last = std::max(last, reading.at_s);
  }
  return last;
}

// Lines over time: the mean of `value` over each of at most 240 equal pieces of the time.
template <typename Value>
void time_lines(Drawing& drawing, const std::vector<ShownRun>& runs, const Scale& x, const Scale& y,
                double last_s, Value value) {
  constexpr size_t kPieces = 240;
  for (const ShownRun& run : runs) {
    std::vector<Moments> pieces(kPieces + 1);
    for (const RunReading& reading : run.file->readings) {
      const auto piece = static_cast<size_t>(reading.at_s / last_s * kPieces);
      if (const auto number = value(reading)) pieces[std::min(piece, kPieces)].add(*number);
    }
    std::vector<std::pair<double, double>> points;
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].count() == 0) continue;
      const double at = (static_cast<double>(i) + 0.5) / kPieces * last_s;
      points.emplace_back(x.pixel(at), y.pixel(pieces[i].mean()));
    }
    drawing.polyline(points, "curve " + run.colour, run.label);
  }
}

// A chart of readings: nothing if no run has any.
template <typename Value, typename Label>
std::string reading_chart(const std::vector<ShownRun>& runs, const char* what, double most,
                          Label label, Value value) {
  const double last_s = last_reading_s(runs);
  if (last_s <= 0 || most <= 0) return "";
  Drawing drawing(kWidth, kHeight, what);
  const Scale x(0, last_s, kLeft, kRight, false);
  const Scale y(0, most, kBottom, kTop, false);
  axis_left(drawing, y, label);
  axis_below(drawing, x, kTop, kBottom, "time since the start, modelled");
  time_lines(drawing, runs, x, y, last_s, value);
  return std::move(drawing).finish();
}

// The most that any reading of any run has; 0 if none has it.
template <typename Value>
double most_of(const std::vector<ShownRun>& runs, Value value) {
  double most = 0;
  for (const ShownRun& run : runs) {
    for (const RunReading& reading : run.file->readings) {
      most = std::max(most, value(reading).value_or(0));
    }
  }
  return most;
}

std::string percent_label(double share) { return fixed(share * 100, 0) + " %"; }

// What an invocation did on its device.
struct Span {
  const RunRecord* record = nullptr;
  double from_s = 0;  // when it was dispatched
  double until_s = 0;
};

double cold_until(const Span& span) {
  return std::min(span.until_s, span.from_s + span.record->sample.cold_s);
}

// The spans of one device that begin in the window, by their beginning.
std::vector<Span> spans_on(const RunFile& run, uint32_t device, double window_s) {
  std::vector<Span> spans;
  for (const RunRecord& record : run.records) {
    if (record.device != device || !record.sample.succeeded) continue;
    const double from_s = record.at_s + record.sample.queue_s;
    if (from_s > window_s) continue;
    spans.push_back({&record, from_s, record.at_s + record.sample.latency_s});
  }
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.from_s < b.from_s; });
  return spans;
}

// The first row that is free again, for each span: those that overlap stand side by side.
std::vector<size_t> rows_of(const std::vector<Span>& spans) {
  std::vector<double> free_at_s;
  std::vector<size_t> rows;
  for (const Span& span : spans) {
    size_t row = 0;
    while (row < free_at_s.size() && free_at_s[row] > span.from_s + 1e-9) ++row;
    if (row == free_at_s.size()) free_at_s.push_back(0);
    free_at_s[row] = span.until_s;
    rows.push_back(row);
  }
  return rows;
}

// So long that no more than so many invocations of any run were dispatched by then.
double window_of(const std::vector<ShownRun>& runs) {
  constexpr size_t kMostSpans = 400;
  double window_s = 0;
  for (const ShownRun& run : runs) {
    std::vector<double> begins;
    for (const RunRecord& record : run.file->records) {
      if (record.device > 0 && record.sample.succeeded) {
        begins.push_back(record.at_s + record.sample.queue_s);
      }
    }
    if (begins.empty()) continue;
    const size_t last = std::min(begins.size() - 1, kMostSpans);
    std::nth_element(begins.begin(), begins.begin() + static_cast<std::ptrdiff_t>(last),
                     begins.end());
    window_s = window_s > 0 ? std::min(window_s, begins[last]) : begins[last];
  }
  return window_s;
}

}  // namespace

std::string utilisation_chart(const std::vector<ShownRun>& runs) {
  const auto value = [](const RunReading& reading) { return reading.utilisation; };
  const bool any = std::any_of(runs.begin(), runs.end(), [](const ShownRun& run) {
    return mean_utilisation(run.file->readings).has_value();
  });
  return reading_chart(runs, "Utilisation of the devices over time, by run", any ? 1 : 0,
                       percent_label, value);
}

std::string in_flight_chart(const std::vector<ShownRun>& runs) {
  const auto value = [](const RunReading& reading) {
    return std::optional<double>(static_cast<double>(reading.in_flight));
  };
  const auto label = [](double count) { return fixed(count, count < 5 ? 1 : 0); };
  return reading_chart(runs, "Invocations in flight over time, by run", most_of(runs, value), label,
                       value);
}

std::string lag_chart(const std::vector<ShownRun>& runs) {
  const auto value = [](const RunReading& reading) { return reading.lag_s; };
  return reading_chart(runs, "Virtual-time lag over time, by run", most_of(runs, value),
                       seconds_label, value);
}

std::string cold_chart(const std::vector<ShownRun>& runs) {
  constexpr size_t kPieces = 60;
  double last_s = 0;
  double most = 0;
  for (const ShownRun& run : runs) {
    for (const RunRecord& record : run.file->records) last_s = std::max(last_s, record.at_s);
  }
  if (last_s <= 0) return "";
  std::vector<std::vector<Moments>> shares(runs.size(), std::vector<Moments>(kPieces + 1));
  for (size_t r = 0; r < runs.size(); ++r) {
    for (const RunRecord& record : runs[r].file->records) {
      if (!record.sample.succeeded) continue;
      const auto piece = static_cast<size_t>(record.at_s / last_s * kPieces);
      shares[r][std::min(piece, kPieces)].add(record.sample.start == StartClass::kCold ? 1 : 0);
    }
    for (const Moments& share : shares[r]) {
      if (share.count() > 0) most = std::max(most, share.mean());
    }
  }
  if (most <= 0) return "";
  Drawing drawing(kWidth, kHeight, "Share of cold starts over time, by run");
  const Scale x(0, last_s, kLeft, kRight, false);
  const Scale y(0, most, kBottom, kTop, false);
  axis_left(drawing, y, percent_label);
  axis_below(drawing, x, kTop, kBottom, "time of arrival, modelled");
  for (size_t r = 0; r < runs.size(); ++r) {
    std::vector<std::pair<double, double>> points;
    for (size_t i = 0; i < kPieces; ++i) {
      if (shares[r][i].count() == 0) continue;
      points.emplace_back(x.pixel((static_cast<double>(i) + 0.5) / kPieces * last_s),
                          y.pixel(shares[r][i].mean()));
    }
    drawing.polyline(points, "curve " + runs[r].colour, runs[r].label);
  }
  return std::move(drawing).finish();
}

std::string timeline_chart(const std::vector<ShownRun>& runs) {
  constexpr double kNames = 150;
  constexpr double kRow = 12;
  constexpr uint32_t kMostDevices = 8;  // of each run
  const double window_s = window_of(runs);
  if (window_s <= 0) return "";
  struct StageProcess {
    const RunFile* run = nullptr;
    std::string name;
    std::vector<Span> spans;
    std::vector<size_t> rows;
    double top = 0;
  };
  std::vector<StageProcess> stage_processes;
  double bottom = kTop;
  for (const ShownRun& run : runs) {
    for (uint32_t device = 1; device <= std::min(run.file->header.devices, kMostDevices);
         ++device) {
      StageProcess stage_process{run.file,
                                 run.label + " GPU " + std::to_string(device - 1),
                                 spans_on(*run.file, device, window_s),
                                 {},
                                 bottom};
      stage_process.rows = rows_of(stage_process.spans);
      const size_t rows =
          stage_process.rows.empty()
              ? 1
              : 1 + *std::max_element(stage_process.rows.begin(), stage_process.rows.end());
      bottom += kRow * static_cast<double>(rows) + 10;
      stage_processes.push_back(std::move(stage_process));
    }
  }
  Drawing drawing(kWidth, bottom + 44, "What ran on each device at the beginning");
  const Scale x(0, window_s, kNames, kRight, false);
  axis_below(drawing, x, kTop, bottom, "time since the start, modelled");
  for (const StageProcess& stage_process : stage_processes) {
    drawing.text(kNames - 8, stage_process.top + 10, stage_process.name.substr(0, 24), "end",
                 "tick");
    for (size_t i = 0; i < stage_process.spans.size(); ++i) {
      const Span& span = stage_process.spans[i];
      const RunRecord& record = *span.record;
      const double y = stage_process.top + kRow * static_cast<double>(stage_process.rows[i]);
      const double from = x.pixel(span.from_s);
      const double begun = std::min(kRight, x.pixel(cold_until(span)));
      const double until = std::min(kRight, x.pixel(span.until_s));
      const std::string& name = stage_process.run->header.functions[record.sample.function].name;
      if (begun - from > 0.2) {
        drawing.rectangle(from, y, begun - from, kRow - 2, "rest",
                          name + ": cold start of " + seconds_label(record.sample.cold_s));
      }
      drawing.rectangle(begun, y, until - begun, kRow - 2,
                        "bar c" + std::to_string(record.sample.function % kPageColours),
                        name + " at " + seconds_label(span.from_s) + ", ran " +
                            seconds_label(record.sample.run_s));
    }
  }
  return std::move(drawing).finish();
}

}  // namespace lambent::workload
