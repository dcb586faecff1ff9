#include "sim/workload/interval_trace.h"

#include <cmath>
#include <utility>

#include "core/base/random.h"
#include "sim/workload/exact_rows.h"
#include "sim/workload/function_table.h"
#include "sim/workload/limits.h"
#include "sim/workload/time_order.h"

namespace lambent::workload {
namespace {

// Of a file with one row.
constexpr Duration kMinute = seconds(60);
constexpr double kMostIntervalSeconds = 86'400;

struct Count {
  uint32_t function = 0;
  uint32_t invocations = 0;
};

// What of a row is not zero.
struct IntervalRow {
  Duration at{};  // since the file's first row
  std::vector<Count> counts;
};

// The rows, checked one by one.
class IntervalRows {
 public:
  explicit IntervalRows(RowReader rows) : rows_(std::move(rows)), time_(*rows_.column("time")) {
    for (size_t i = 0; i < rows_.header().size(); ++i) {
      if (i != time_ && rows_.header()[i] != "day") functions_.push_back(i);
    }
  }

  // The columns of the functions.
  const std::vector<size_t>& functions() const { return functions_; }
  const std::vector<std::string>& header() const { return rows_.header(); }
  // How long an interval is: the time between the first two rows.
  Duration interval() const { return interval_.value_or(kMinute); }

  Result<bool> next(IntervalRow& row, BadRows& bad) {
    for (;;) {
      ASSIGN_OR_RETURN(const bool more, rows_.next(fields_, bad));
      if (!more) return false;
      const std::string wrong = parse(row);
      if (wrong.empty()) return true;
      bad.add(rows_.line(), wrong);
    }
  }

 private:
  std::string parse(IntervalRow& row) {
    const std::string_view text = fields_[time_];
    const auto time = time_of(text, TimeUnit::kSeconds);
    if (!time) return "time is " + quoted(text) + ", not a time in seconds";
    // First, so that the interval is known whatever the counts are.
    if (std::string wrong = check_time(*time, text); !wrong.empty()) return wrong;
    row.at = *time - *first_;
    row.counts.clear();
    uint64_t total = 0;
    for (uint32_t i = 0; i < functions_.size(); ++i) {
      const std::string_view field = fields_[functions_[i]];
      if (field.empty() || field == "NaN" || field == "nan") continue;
      const auto count = number_of(field);
      if (!count || *count < 0 || *count > static_cast<double>(limits::kTraceCountPerMinute) ||
          *count != std::floor(*count)) {
        return "function " + quoted(header()[functions_[i]]) + " has " + quoted(field) +
               ", not a number of invocations";
      }
      if (*count > 0) row.counts.push_back({i, static_cast<uint32_t>(*count)});
      total += static_cast<uint64_t>(*count);
    }
    // They are drawn all at once.
    if (total > limits::kTraceArrivals) {
      return "more than " + std::to_string(limits::kTraceArrivals) + " invocations in one interval";
    }
    return {};
  }

  std::string check_time(Duration time, std::string_view text) {
    if (!first_) {
      first_ = last_ = time;
      return {};
    }
    if (time <= *last_) return "time goes back to " + quoted(text) + "; sort the rows by time";
    const Duration step = time - *last_;
    if (!interval_ && to_seconds(step) <= kMostIntervalSeconds) interval_ = step;
    if (step < interval()) {
      return "time is " + quoted(text) + ", less than an interval after the row before";
    }
    if (to_seconds(time - *first_) > kMostSeconds) {
      return "time is " + quoted(text) + ", too long after the first row";
    }
    last_ = time;
    return {};
  }

  RowReader rows_;
  size_t time_;
  std::vector<size_t> functions_;
  std::optional<Duration> first_, last_, interval_;
  std::vector<std::string_view> fields_;
};

// What the first reading found out for the second.
struct IntervalPlan {
  std::string file;
  std::vector<std::string> header;  // of a file without one
  std::vector<uint32_t> new_index;  // of each function, or kNotChosen
  Duration interval{};
  uint64_t invocations = 0;  // of the chosen functions in the window
  Duration start{}, end{};   // of the window
  bool skip_bad_rows = false;
  double rate_scale = 1;
  Spreading spreading = Spreading::kUniform;
  uint64_t seed = 1;
};

// Gives the rows: from the file again, or those that were held.
class RowSource {
 public:
  RowSource(std::unique_ptr<LineReader> lines, IntervalRows rows)
      : lines_(std::move(lines)), rows_(std::move(rows)) {}
  explicit RowSource(std::vector<IntervalRow> held) : held_(std::move(held)) {}

  Result<bool> next(IntervalRow& row, BadRows& bad) {
    if (rows_) return rows_->next(row, bad);
    if (given_ == held_.size()) return false;
    row = std::move(held_[given_++]);
    return true;
  }

 private:
  std::unique_ptr<LineReader> lines_;
  std::optional<IntervalRows> rows_;
  std::vector<IntervalRow> held_;
  size_t given_ = 0;
};

class IntervalSource final : public ArrivalSource {
 public:
  IntervalSource(RowSource rows, IntervalPlan plan)
      : rows_(std::move(rows)), plan_(std::move(plan)), bad_(plan_.file), random_(plan_.seed) {}

  std::optional<Arrival> next() override {
    while (given_ == arrivals_.size()) {
      if (!draw_interval()) return std::nullopt;
    }
    return arrivals_[given_++];
  }
  std::optional<Error> failure() const override { return failure_; }

 private:
  bool draw_interval() {
    if (at_end_) return false;
    const auto more = rows_.next(row_, bad_);
    if (!more.ok()) {
      failure_ = more.error();
    } else if (bad_.count() > 0 && !plan_.skip_bad_rows) {
      failure_ = changed();
    } else if (*more && row_.at < plan_.end) {
      if (row_.at >= plan_.start) spread_row();
      return true;
    } else if (read_ != plan_.invocations) {
      failure_ = changed();
    }
    at_end_ = true;
    return false;
  }

  void spread_row() {
    arrivals_.clear();
    given_ = 0;
    for (const Count& count : row_.counts) {
      const uint32_t function = plan_.new_index[count.function];
      if (function == kNotChosen) continue;
      read_ += count.invocations;
      instants_.clear();
      spread(plan_.spreading, count.invocations, plan_.interval, random_, instants_);
      for (const Duration instant : instants_) {
        const double at_s = to_seconds(row_.at - plan_.start + instant) / plan_.rate_scale;
        arrivals_.push_back({.at = from_seconds(at_s), .function = function});
      }
    }
    order_.sort(arrivals_);
  }

  Error changed() const { return changed_since(plan_.file); }

  RowSource rows_;
  IntervalPlan plan_;
  BadRows bad_;
  SeededRandom random_;
  IntervalRow row_;
  uint64_t read_ = 0;
  bool at_end_ = false;
  std::optional<Error> failure_;
  std::vector<Arrival> arrivals_;  // of the row before
  size_t given_ = 0;
  std::vector<Duration> instants_;
  TimeOrder order_;
};

Result<FunctionTable> functions_of(const IntervalRows& rows, const std::string& file) {
  FunctionTable table;
  for (const size_t column : rows.functions()) {
    const std::string& name = rows.header()[column];
    const size_t before = table.size();
    if (name.empty()) {
      return Error{ErrorCode::kInvalidArgument,
                   file + " line 1: column " + std::to_string(column + 1) +
                       " has no name, which would be that of its function"};
    }
    RETURN_IF_ERROR(table.index_of(name));
    if (table.size() > before) continue;
    return Error{ErrorCode::kInvalidArgument,
                 file + " line 1: two columns are called " + quoted(name)};
  }
  return table;
}

Result<void> check_window(const IntervalRows& rows, Duration last, const std::string& file,
                          const TraceOptions& options) {
  const Duration interval = rows.interval();
  if (options.start % interval != Duration(0) || options.length % interval != Duration(0)) {
    return Error{ErrorCode::kInvalidArgument, file + " counts by " +
                                                  std::to_string(to_seconds(interval)) +
                                                  " s: the window must be whole intervals"};
  }
  if (options.start > last) {
    return Error{ErrorCode::kOutOfRange, file + " has rows for only " +
                                             std::to_string(to_seconds(last + interval)) +
                                             " s; the window begins after them"};
  }
  return {};
}

// What the first reading of all rows finds out.
struct Totals {
  std::vector<uint64_t> of_function;  // in the window
  Duration last{};                    // row
  Duration last_in_window{};
  bool any_in_window = false;
  std::vector<IntervalRow> held;
};

Result<Totals> read_totals(IntervalRows& rows, BadRows& bad, bool holds, const std::string& file,
                           const IntervalPlan& plan) {
  Totals totals{.of_function = std::vector<uint64_t>(rows.functions().size())};
  IntervalRow row;
  uint64_t held = 0;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next(row, bad));
    if (!more) return totals;
    totals.last = row.at;
    if (row.at < plan.start || row.at >= plan.end) continue;
    totals.last_in_window = row.at;
    totals.any_in_window = true;
    for (const Count& count : row.counts) totals.of_function[count.function] += count.invocations;
    if (!holds) continue;
    held += row.counts.size() + 1;
    if (held > limits::kTraceArrivals) {
      return Error{ErrorCode::kResourceExhausted,
                   file + " has more than " + std::to_string(limits::kTraceArrivals) +
                       " counts, and has to be held in memory; give it as a file instead of "
                       "through a pipe"};
    }
    totals.held.push_back(row);
  }
}

}  // namespace

bool is_interval_header(const RowReader& rows) {
  return rows.column("day").has_value() && rows.column("time").has_value() &&
         rows.header().size() > 2;
}

Result<Trace> read_interval_trace(std::unique_ptr<LineReader> lines, RowReader reader,
                                  const std::string& file, const TraceOptions& options) {
  const std::vector<std::string> columns = reader.header();
  IntervalRows rows(std::move(reader));
  ASSIGN_OR_RETURN(FunctionTable table, functions_of(rows, file));
  IntervalPlan plan{.file = file,
                    .header = options.header,
                    .start = options.start,
                    .end = options.length > Duration(0) ? options.start + options.length
                                                        : kNever.time_since_epoch(),
                    .skip_bad_rows = options.skip_bad_rows,
                    .rate_scale = options.rate_scale,
                    .spreading = options.spreading,
                    .seed = options.seed};
  BadRows bad(file);
  const bool holds = !lines->can_rewind();
  ASSIGN_OR_RETURN(Totals totals, read_totals(rows, bad, holds, file, plan));
  if (!options.skip_bad_rows) RETURN_IF_ERROR(bad.verdict(kSkipBadRows));
  RETURN_IF_ERROR(check_window(rows, totals.last, file, options));
  plan.interval = rows.interval();

  Trace trace{.format = "intervals", .functions = table.take()};
  trace.skipped_rows = bad.count();
  if (totals.any_in_window) {
    const Duration length = totals.last_in_window - options.start + plan.interval;
    ASSIGN_OR_RETURN(trace.length, length_at_rate(length, options.rate_scale, file));
  }
  ASSIGN_OR_RETURN(plan.new_index, choose_functions(trace.functions, totals.of_function,
                                                    options.only, options.busiest));
  for (size_t i = 0; i < plan.new_index.size(); ++i) {
    if (plan.new_index[i] != kNotChosen) plan.invocations += totals.of_function[i];
  }
  trace.assumptions.push_back(words_of(options.spreading, plan.interval, options.seed));
  if (holds) {
    trace.arrivals =
        std::make_unique<IntervalSource>(RowSource(std::move(totals.held)), std::move(plan));
    return trace;
  }
  if (auto rewound = lines->rewind(); !rewound.ok()) return rewound.error().with_context(file);
  ASSIGN_OR_RETURN(RowReader again, RowReader::start(*lines, file, options.header));
  if (again.header() != columns) return changed_since(file);
  IntervalRows checked(std::move(again));
  trace.arrivals = std::make_unique<IntervalSource>(RowSource(std::move(lines), std::move(checked)),
                                                    std::move(plan));
  return trace;
}

}  // namespace lambent::workload
