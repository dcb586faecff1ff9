#include "sim/workload/exact_trace.h"

#include <algorithm>

#include "sim/workload/exact_rows.h"
#include "sim/workload/exact_source.h"
#include "sim/workload/function_table.h"

namespace lambent::workload {
namespace {

Error too_many_arrivals(const std::string& file, const TraceOptions& options,
                        std::string_view remedy) {
  return Error{ErrorCode::kResourceExhausted,
               file + " has more than " + std::to_string(options.most_held) +
                   " rows, and has to be held in memory; " + std::string(remedy)};
}

Duration end_of_window(const TraceOptions& options) {
  return options.length.count() > 0 ? options.start + options.length : kNever.time_since_epoch();
}

// Of arrivals that are held in memory: the window, the chosen functions, the rate.
Result<Trace> finish(std::string format, FunctionTable table, std::vector<Arrival> arrivals,
                     const std::string& file, const BadRows& bad, const TraceOptions& options) {
  if (!options.skip_bad_rows) RETURN_IF_ERROR(bad.verdict(kSkipBadRows));
  const Duration end = end_of_window(options);
  std::erase_if(arrivals, [&](const Arrival& a) { return a.at < options.start || a.at >= end; });

  Trace trace{.format = std::move(format), .functions = table.take()};
  trace.skipped_rows = bad.count();
  std::vector<uint64_t> counts(trace.functions.size());
  for (const Arrival& arrival : arrivals) ++counts[arrival.function];
  ASSIGN_OR_RETURN(const auto new_index,
                   choose_functions(trace.functions, counts, options.only, options.busiest));
  std::erase_if(arrivals, [&](const Arrival& a) { return new_index[a.function] == kNotChosen; });
  Duration last = options.start;
  for (const Arrival& arrival : arrivals) last = std::max(last, arrival.at);
  ASSIGN_OR_RETURN(trace.length, length_at_rate(last - options.start, options.rate_scale, file));
  for (Arrival& arrival : arrivals) {
    arrival.function = new_index[arrival.function];
    arrival.at = from_seconds(to_seconds(arrival.at - options.start) / options.rate_scale);
  }
  trace.arrivals = source_of(std::move(arrivals));
  return trace;
}

// The functions' mean run times, from the rows that say them.
class MeanRuns {
 public:
  void add(uint32_t function, double run_s) {
    if (function >= sums_.size()) sums_.resize(function + 1);
    sums_[function].first += run_s;
    ++sums_[function].second;
  }
  void tell(FunctionTable& table) const {
    for (uint32_t i = 0; i < sums_.size(); ++i) {
      const auto& [sum_s, count] = sums_[i];
      if (count > 0) table.at(i).recorded_s = sum_s / static_cast<double>(count);
    }
  }

 private:
  std::vector<std::pair<double, uint64_t>> sums_;
};

// What is known once all rows were read, for the user.
std::vector<std::string> assumptions_of(const ExactRows& rows, const std::string& file,
                                        uint64_t rows_read) {
  const TableLayout& layout = rows.layout();
  std::vector<std::string> all = layout.assumptions;
  for (size_t i = 0; i < rows.left_out().size(); ++i) {
    const uint64_t count = rows.left_out()[i];
    if (count > 0) {
      all.push_back(std::to_string(count) + " rows are left out, which " +
                    layout.filters[i].because);
    }
  }
  if (rows_read == 0) return all;
  if (layout.function.empty()) {
    all.push_back("the rows name no function: all are of one, '" + trace_name_of(file) + "'");
  }
  if (!layout.is_relative) all.push_back("times count from the earliest row");
  return all;
}

// One row, in the table of functions. The index of its function.
Result<uint32_t> add_row(const ExactRow& row, FunctionTable& table, MeanRuns& runs) {
  ASSIGN_OR_RETURN(const uint32_t index, table.index_of(row.function));
  if (row.gpu_count > 0) table.at(index).gpu_count = row.gpu_count;
  if (row.execution_s > 0) runs.add(index, row.execution_s);
  return index;
}

// The file beside an exact trace: its functions and what stands in for each.
Result<void> read_functions(LineReader& lines, const std::string& file, FunctionTable& table) {
  ASSIGN_OR_RETURN(RowReader rows, RowReader::start(lines, file));
  const auto named = function_column(rows);
  if (!named) {
    return Error{ErrorCode::kInvalidArgument, file + " line 1: the header has no column 'func'"};
  }
  const auto entry = rows.column("gpu_function");
  const auto label = rows.column("label") ? rows.column("label") : rows.column("trigger");
  BadRows bad(file);
  std::vector<std::string_view> fields;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next(fields, bad));
    if (!more) break;
    if (fields[*named].empty()) {
      bad.add(rows.line(), "the function has no name");
      continue;
    }
    ASSIGN_OR_RETURN(const uint32_t index, table.index_of(fields[*named]));
    if (entry) table.at(index).catalogue_entry = fields[*entry];
    if (label) table.at(index).label = fields[*label];
  }
  return bad.verdict();
}

Result<Trace> hold_exact_trace(ExactRows rows, FunctionTable table, const std::string& file,
                               std::string_view remedy, const TraceOptions& options) {
  BadRows bad(file);
  std::vector<Arrival> arrivals;
  MeanRuns runs;
  std::optional<Duration> earliest;
  ExactRow row;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next(row, bad));
    if (!more) break;
    if (arrivals.size() == options.most_held) return too_many_arrivals(file, options, remedy);
    ASSIGN_OR_RETURN(const uint32_t index, add_row(row, table, runs));
    arrivals.push_back({.at = row.at, .function = index, .execution_s = row.execution_s});
    earliest = std::min(earliest.value_or(row.at), row.at);
  }
  const TableLayout& layout = rows.layout();
  if (!layout.is_relative && earliest) {
    for (Arrival& arrival : arrivals) arrival.at -= *earliest;
  }
  runs.tell(table);
  auto assumptions = assumptions_of(rows, file, arrivals.size());
  ASSIGN_OR_RETURN(Trace trace, finish(layout.format, std::move(table), std::move(arrivals), file,
                                       bad, options));
  trace.has_run_times = layout.has_run_times();
  trace.assumptions = std::move(assumptions);
  return trace;
}

Result<Trace> stream_exact_trace(std::unique_ptr<LineReader> lines, ExactRows rows,
                                 FunctionTable table, const std::string& file,
                                 const TraceOptions& options) {
  ExactSourcePlan plan{.file = file,
                       .header = options.header,
                       .columns = rows.header(),
                       .layout = rows.layout(),
                       .skip_bad_rows = options.skip_bad_rows,
                       .start = options.start,
                       .end = end_of_window(options),
                       .rate_scale = options.rate_scale,
                       .most_held = options.most_held};
  const FunctionTable before = table;  // any row
  BadRows bad(file);
  std::vector<uint64_t> counts(table.size());  // in the window
  std::vector<Duration> last(table.size());    // arrival there
  MeanRuns runs;
  std::optional<Duration> first;
  uint64_t read = 0;
  ExactRow row;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next(row, bad));
    if (!more) break;
    ASSIGN_OR_RETURN(const uint32_t index, add_row(row, table, runs));
    if (index == counts.size()) {
      counts.push_back(0);
      last.emplace_back();
    }
    ++read;
    if (!first) first = row.at;
    if (!plan.layout.is_relative) plan.origin = *first;
    const Duration at = row.at - plan.origin;
    if (at < plan.start || at >= plan.end) continue;
    ++counts[index];
    last[index] = at;
  }
  if (!options.skip_bad_rows) RETURN_IF_ERROR(bad.verdict(kSkipBadRows));
  if (!plan.layout.is_relative && !rows.in_order()) {
    if (auto rewound = lines->rewind(); !rewound.ok()) return rewound.error().with_context(file);
    ASSIGN_OR_RETURN(RowReader again, RowReader::start(*lines, file, options.header));
    if (again.header() != plan.columns) return changed_since(file);
    return hold_exact_trace(ExactRows(std::move(again), plan.layout, trace_name_of(file)), before,
                            file, "sort it by time", options);
  }
  runs.tell(table);

  Trace trace{.format = plan.layout.format, .functions = table.take()};
  trace.skipped_rows = bad.count();
  trace.has_run_times = plan.layout.has_run_times();
  trace.assumptions = assumptions_of(rows, file, read);
  ASSIGN_OR_RETURN(plan.new_index,
                   choose_functions(trace.functions, counts, options.only, options.busiest));
  Duration length{};
  for (size_t i = 0; i < counts.size(); ++i) {
    if (plan.new_index[i] == kNotChosen || counts[i] == 0) continue;
    plan.arrivals += counts[i];
    length = std::max(length, last[i] - options.start);
  }
  ASSIGN_OR_RETURN(trace.length, length_at_rate(length, options.rate_scale, file));
  plan.table = std::move(table);
  ASSIGN_OR_RETURN(trace.arrivals, source_of(std::move(lines), std::move(plan)));
  return trace;
}

}  // namespace

Result<Trace> read_exact_trace(std::unique_ptr<LineReader> lines, RowReader rows,
                               TableLayout layout, LineReader* functions, const std::string& file,
                               const TraceOptions& options) {
  ExactRows checked(std::move(rows), std::move(layout), trace_name_of(file));
  FunctionTable table;
  if (functions != nullptr) {
    RETURN_IF_ERROR(read_functions(*functions, trace_name_of(file) + "_functions.csv", table));
  }
  if (!lines->can_rewind()) {
    return hold_exact_trace(std::move(checked), std::move(table), file,
                            "give it as a file instead of through a pipe", options);
  }
  return stream_exact_trace(std::move(lines), std::move(checked), std::move(table), file, options);
}

Result<Trace> read_azure2021_trace(RowReader rows, const std::string& file,
                                   const TraceOptions& options) {
  ASSIGN_OR_RETURN(const size_t named, rows.required_column("func"));
  ASSIGN_OR_RETURN(const size_t ended, rows.required_column("end_timestamp"));
  ASSIGN_OR_RETURN(const size_t lasted, rows.required_column("duration"));
  for (const std::string& column : rows.header()) {
    if (column == "app" || column == "func" || column == "end_timestamp" || column == "duration") {
      continue;
    }
    return Error{ErrorCode::kInvalidArgument,
                 file + " line 1: nothing is known of the column " + quoted(column) +
                     ": rows have app, func, end_timestamp and duration; leave it out"};
  }
  FunctionTable table;
  BadRows bad(file);
  std::vector<Arrival> arrivals;
  std::vector<std::vector<double>> durations;
  std::vector<std::string_view> fields;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next(fields, bad));
    if (!more) break;
    const auto end = number_of(fields[ended]);
    const auto duration = number_of(fields[lasted]);
    if (!end || *end < 0 || *end > kMostSeconds) {
      bad.add(rows.line(), "end_timestamp is " + quoted(fields[ended]) + ", not a time in seconds");
    } else if (!duration || *duration < 0) {
      bad.add(rows.line(), "duration is " + quoted(fields[lasted]) + ", not a time in seconds");
    } else if (fields[named].empty()) {
      bad.add(rows.line(), "the function has no name");
    } else {
      if (arrivals.size() == options.most_held) {
        return too_many_arrivals(file, options, "cut it into shorter ones");
      }
      ASSIGN_OR_RETURN(const uint32_t index, table.index_of(fields[named]));
      if (index >= durations.size()) durations.resize(index + 1);
      durations[index].push_back(*duration);
      // What began before the trace did counts as arriving at its start.
      arrivals.push_back({.at = from_seconds(std::max(0.0, *end - *duration)), .function = index});
    }
  }
  for (uint32_t i = 0; i < durations.size(); ++i) {
    const auto quarter =
        durations[i].begin() + static_cast<ptrdiff_t>((durations[i].size() - 1) / 4);
    std::nth_element(durations[i].begin(), quarter, durations[i].end());
    table.at(i).recorded_s = *quarter;
  }
  ASSIGN_OR_RETURN(Trace trace,
                   finish("azure2021", std::move(table), std::move(arrivals), file, bad, options));
  trace.assumptions.push_back(
      "durations only choose what of the catalogue stands for a function; with --column "
      "end=end_timestamp:s, duration=duration:s and function=func calls take them");
  return trace;
}

}  // namespace lambent::workload
