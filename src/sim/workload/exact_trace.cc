#include "sim/workload/exact_trace.h"

#include <algorithm>

#include "core/domain/limits.h"
#include "sim/workload/exact_rows.h"
#include "sim/workload/exact_source.h"
#include "sim/workload/function_table.h"

namespace lambent::workload {
namespace {

Error too_many_arrivals(const std::string& file, std::string_view remedy) {
  return Error{ErrorCode::kResourceExhausted,
               file + " has more than " + std::to_string(limits::kTraceArrivals) +
                   " rows, and has to be held in memory; " + std::string(remedy)};
}

Duration end_of_window(const TraceOptions& options) {
  return options.length.count() > 0 ? options.start + options.length : kNever.time_since_epoch();
}

// Of arrivals that are held in memory: the window, the chosen functions, the rate.
Result<Trace> finish(std::string format, FunctionTable table, std::vector<Arrival> arrivals,
                     const BadRows& bad, const TraceOptions& options) {
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
  for (Arrival& arrival : arrivals) {
    arrival.function = new_index[arrival.function];
    arrival.at = from_seconds(to_seconds(arrival.at - options.start) / options.rate_scale);
    trace.length = std::max(trace.length, arrival.at);
  }
  trace.arrivals = source_of(std::move(arrivals));
  return trace;
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
                               const TraceOptions& options) {
  BadRows bad(file);
  std::vector<Arrival> arrivals;
  ExactRow row;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next(row, bad));
    if (!more) break;
    if (arrivals.size() == limits::kTraceArrivals) {
      return too_many_arrivals(file, "give it as a file instead of through a pipe");
    }
    ASSIGN_OR_RETURN(const uint32_t index, table.index_of(row.function));
    arrivals.push_back({.at = row.at, .function = index});
  }
  return finish("exact", std::move(table), std::move(arrivals), bad, options);
}

Result<Trace> stream_exact_trace(std::unique_ptr<LineReader> lines, ExactRows rows,
                                 FunctionTable table, const std::string& file,
                                 const TraceOptions& options) {
  ExactSourcePlan plan{.file = file,
                       .skip_bad_rows = options.skip_bad_rows,
                       .start = options.start,
                       .end = end_of_window(options),
                       .rate_scale = options.rate_scale};
  BadRows bad(file);
  std::vector<uint64_t> counts(table.size());  // in the window
  std::vector<Duration> last(table.size());    // arrival there
  ExactRow row;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next(row, bad));
    if (!more) break;
    ASSIGN_OR_RETURN(const uint32_t index, table.index_of(row.function));
    if (index == counts.size()) {
      counts.push_back(0);
      last.emplace_back();
    }
    if (row.at < plan.start || row.at >= plan.end) continue;
    ++counts[index];
    last[index] = row.at;
  }
  if (!options.skip_bad_rows) RETURN_IF_ERROR(bad.verdict(kSkipBadRows));

  Trace trace{.format = "exact", .functions = table.take()};
  trace.skipped_rows = bad.count();
  ASSIGN_OR_RETURN(plan.new_index,
                   choose_functions(trace.functions, counts, options.only, options.busiest));
  for (size_t i = 0; i < counts.size(); ++i) {
    if (plan.new_index[i] == kNotChosen || counts[i] == 0) continue;
    plan.arrivals += counts[i];
    const double last_s = to_seconds(last[i] - options.start) / options.rate_scale;
    trace.length = std::max(trace.length, from_seconds(last_s));
  }
  plan.table = std::move(table);
  ASSIGN_OR_RETURN(trace.arrivals, source_of(std::move(lines), std::move(plan)));
  return trace;
}

}  // namespace

Result<Trace> read_exact_trace(std::unique_ptr<LineReader> lines, RowReader rows,
                               LineReader* functions, const std::string& file,
                               const TraceOptions& options) {
  ASSIGN_OR_RETURN(ExactRows checked, ExactRows::start(std::move(rows), file));
  FunctionTable table;
  if (functions != nullptr) {
    RETURN_IF_ERROR(read_functions(*functions, trace_name_of(file) + "_functions.csv", table));
  }
  if (!lines->can_rewind()) {
    return hold_exact_trace(std::move(checked), std::move(table), file, options);
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
      if (arrivals.size() == limits::kTraceArrivals) {
        return too_many_arrivals(file, "cut it into shorter ones");
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
  return finish("azure2021", std::move(table), std::move(arrivals), bad, options);
}

}  // namespace lambent::workload
