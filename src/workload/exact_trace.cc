#include "workload/exact_trace.h"

#include <algorithm>

#include "domain/limits.h"
#include "workload/function_table.h"

namespace lambent::workload {
namespace {

// Times far beyond any trace would overflow the clock's nanoseconds.
constexpr double kMostSeconds = 1e9;

std::string quoted(std::string_view text) {
  constexpr size_t kMost = 40;
  return "'" + std::string(text.substr(0, kMost)) + (text.size() > kMost ? "...'" : "'");
}

Error too_many_arrivals() {
  return Error{ErrorCode::kResourceExhausted, "the window has more than " +
                                                  std::to_string(limits::kTraceArrivals) +
                                                  " arrivals; choose a shorter one"};
}

// What both readers do once the rows are in: the window, the chosen functions, the rate.
Result<Trace> finish(std::string format, FunctionTable table, std::vector<Arrival> arrivals,
                     const BadRows& bad, const TraceOptions& options) {
  if (!options.skip_bad_rows) RETURN_IF_ERROR(bad.verdict());
  const Duration end =
      options.length.count() > 0 ? options.start + options.length : kNever.time_since_epoch();
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
  const auto named = rows.column("function") ? rows.column("function") : rows.column("func");
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

}  // namespace

Result<Trace> read_exact_trace(RowReader rows, LineReader* functions, const std::string& file,
                               const TraceOptions& options) {
  ASSIGN_OR_RETURN(const size_t time, rows.required_column("t_ms"));
  const auto named = rows.column("function") ? rows.column("function") : rows.column("func");
  if (!named) {
    return Error{ErrorCode::kInvalidArgument,
                 file + " line 1: the header has no column 'function' or 'func'"};
  }
  FunctionTable table;
  if (functions != nullptr) {
    RETURN_IF_ERROR(read_functions(*functions, trace_name_of(file) + "_functions.csv", table));
  }
  BadRows bad(file);
  std::vector<Arrival> arrivals;
  std::vector<std::string_view> fields;
  double last_ms = 0;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next(fields, bad));
    if (!more) break;
    const auto t_ms = number_of(fields[time]);
    if (!t_ms || *t_ms < 0 || *t_ms > kMostSeconds * 1e3) {
      bad.add(rows.line(), "t_ms is " + quoted(fields[time]) + ", not a time in milliseconds");
    } else if (*t_ms < last_ms) {
      bad.add(rows.line(), "t_ms goes back to " + quoted(fields[time]) + "; sort the rows by t_ms");
    } else if (fields[*named].empty()) {
      bad.add(rows.line(), "the function has no name");
    } else {
      if (arrivals.size() == limits::kTraceArrivals) return too_many_arrivals();
      last_ms = *t_ms;
      ASSIGN_OR_RETURN(const uint32_t index, table.index_of(fields[*named]));
      arrivals.push_back({.at = from_seconds(*t_ms / 1e3), .function = index});
    }
  }
  return finish("exact", std::move(table), std::move(arrivals), bad, options);
}

Result<Trace> read_azure2021_trace(RowReader rows, const std::string& file,
                                   const TraceOptions& options) {
  ASSIGN_OR_RETURN(const size_t named, rows.required_column("func"));
  ASSIGN_OR_RETURN(const size_t ended, rows.required_column("end_timestamp"));
  ASSIGN_OR_RETURN(const size_t lasted, rows.required_column("duration"));
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
      if (arrivals.size() == limits::kTraceArrivals) return too_many_arrivals();
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
