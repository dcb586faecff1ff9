#include "sim/workload/minute_trace.h"

#include <algorithm>
#include <iterator>

#include "core/base/random.h"
#include "sim/workload/exact_rows.h"
#include "sim/workload/function_table.h"
#include "sim/workload/limits.h"
#include "sim/workload/time_order.h"

namespace lambent::workload {
namespace {

constexpr Duration kMinute = seconds(60);

// The counts of the window, one row of `minutes` per function.
struct Counts {
  size_t minutes = 0;
  std::vector<std::vector<uint32_t>> of_function;
};

class MinuteSource final : public ArrivalSource {
 public:
  MinuteSource(Counts counts, const TraceOptions& options)
      : counts_(std::move(counts)), options_(options), random_(options.seed) {}

  std::optional<Arrival> next() override {
    while (given_ == arrivals_.size()) {
      if (minute_ == counts_.minutes) return std::nullopt;
      draw_minute();
    }
    return arrivals_[given_++];
  }

 private:
  void draw_minute() {
    arrivals_.clear();
    given_ = 0;
    const Duration begin = kMinute * static_cast<int64_t>(minute_);
    for (uint32_t function = 0; function < counts_.of_function.size(); ++function) {
      instants_.clear();
      spread(options_.spreading, counts_.of_function[function][minute_], kMinute, random_,
             instants_);
      for (const Duration instant : instants_) {
        const double at = to_seconds(begin + instant) / options_.rate_scale;
        arrivals_.push_back({.at = from_seconds(at), .function = function});
      }
    }
    order_.sort(arrivals_);
    ++minute_;
  }

  Counts counts_;
  TraceOptions options_;
  SeededRandom random_;
  size_t minute_ = 0;
  std::vector<Arrival> arrivals_;  // of the minute before `minute_`
  size_t given_ = 0;
  std::vector<Duration> instants_;
  TimeOrder order_;
};

// Where the minutes begin: the first column from which all names are whole numbers, one apart.
std::optional<size_t> first_minute_column(const std::vector<std::string>& header) {
  size_t first = header.size();
  std::optional<uint64_t> after;
  while (first > 0) {
    const auto minute = whole_number_of(header[first - 1]);
    if (!minute || (after && *minute + 1 != *after)) break;
    after = minute;
    --first;
  }
  if (first == header.size()) return std::nullopt;
  return first;
}

std::optional<size_t> name_column(const RowReader& rows) {
  return rows.column("fid") ? rows.column("fid") : rows.column("HashFunction");
}

// What stands before the minutes in the files that there are. Of another column nothing would be
// made; and a number there is a minute that those after it do not follow.
Result<void> check_columns_before(const RowReader& rows, size_t first, const std::string& file) {
  constexpr std::string_view kKnown[] = {"fid",     "HashFunction", "HashOwner", "HashApp",
                                         "Trigger", "label",        "total"};
  const std::vector<std::string>& header = rows.header();
  if (first > 0 && whole_number_of(header[first - 1])) {
    return Error{ErrorCode::kInvalidArgument,
                 file + " line 1: the minutes have gaps, for " + quoted(header[first]) +
                     " comes after " + quoted(header[first - 1]) +
                     ": give each minute its column, one after the other"};
  }
  for (size_t i = 0; i < first; ++i) {
    if (std::find(std::begin(kKnown), std::end(kKnown), header[i]) != std::end(kKnown)) continue;
    return Error{ErrorCode::kInvalidArgument,
                 file + " line 1: nothing is known of the column " + quoted(header[i]) +
                     ": before the minutes there may be fid, label, total, HashOwner, HashApp, "
                     "HashFunction and Trigger; leave it out"};
  }
  return {};
}

struct Columns {
  size_t name;
  std::optional<size_t> label;
  size_t first;  // of the window
  size_t last;   // one past it
};

Result<Columns> columns_of(const RowReader& rows, const std::string& file,
                           const TraceOptions& options) {
  const size_t first = *first_minute_column(rows.header());
  RETURN_IF_ERROR(check_columns_before(rows, first, file));
  const size_t minutes = rows.header().size() - first;
  if (minutes > limits::kTraceMinutes) {
    return Error{ErrorCode::kOutOfRange, file + " has " + std::to_string(minutes) +
                                             " minutes; at most " +
                                             std::to_string(limits::kTraceMinutes) + " fit"};
  }
  if (options.start % kMinute != Duration::zero() || options.length % kMinute != Duration::zero()) {
    return Error{ErrorCode::kInvalidArgument,
                 file + " counts by the minute: the window must be whole minutes"};
  }
  const size_t skip = static_cast<size_t>(options.start / kMinute);
  size_t keep = static_cast<size_t>(options.length / kMinute);
  if (skip >= minutes) {
    return Error{ErrorCode::kOutOfRange, file + " has only " + std::to_string(minutes) +
                                             " minutes; the window begins after them"};
  }
  if (keep == 0 || keep > minutes - skip) keep = minutes - skip;
  const auto label = rows.column("label") ? rows.column("label") : rows.column("Trigger");
  return Columns{*name_column(rows), label, first + skip, first + skip + keep};
}

// The counts of one row; false, with a note in `bad`, if a cell is no number of invocations.
bool read_counts(const std::vector<std::string_view>& fields, const RowReader& rows,
                 const Columns& columns, BadRows& bad, std::vector<uint32_t>& counts) {
  counts.assign(columns.last - columns.first, 0);
  for (size_t column = columns.first; column < columns.last; ++column) {
    const auto count = whole_number_of(fields[column]);
    if (!count || *count > limits::kTraceCountPerMinute) {
      bad.add(rows.line(), "minute " + rows.header()[column] + " is '" +
                               std::string(fields[column].substr(0, 40)) +
                               "', not a number of invocations");
      return false;
    }
    counts[column - columns.first] = static_cast<uint32_t>(*count);
  }
  return true;
}

// Those of a minute are drawn all at once.
Result<void> check_minutes(const Counts& counts, const std::string& file) {
  for (size_t minute = 0; minute < counts.minutes; ++minute) {
    uint64_t total = 0;
    for (const auto& row : counts.of_function) total += row[minute];
    if (total <= limits::kTraceArrivals) continue;
    return Error{ErrorCode::kResourceExhausted,
                 file + " has more than " + std::to_string(limits::kTraceArrivals) +
                     " invocations in one minute; choose fewer functions with --only or --busiest"};
  }
  return {};
}

}  // namespace

bool is_minute_header(const RowReader& rows) {
  return name_column(rows).has_value() && first_minute_column(rows.header()).has_value();
}

Result<Trace> read_minute_trace(RowReader rows, const std::string& file,
                                const TraceOptions& options) {
  ASSIGN_OR_RETURN(const Columns columns, columns_of(rows, file, options));
  FunctionTable table;
  Counts counts{.minutes = columns.last - columns.first};
  std::vector<uint64_t> totals;
  BadRows bad(file);
  std::vector<std::string_view> fields;
  std::vector<uint32_t> row;
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.next(fields, bad));
    if (!more) break;
    if (fields[columns.name].empty()) {
      bad.add(rows.line(), "the function has no name");
      continue;
    }
    if (!read_counts(fields, rows, columns, bad, row)) continue;
    const size_t before = table.size();
    ASSIGN_OR_RETURN(const uint32_t index, table.index_of(fields[columns.name]));
    if (table.size() == before) {
      bad.add(rows.line(), "function '" + table.at(index).name + "' has a row already");
      continue;
    }
    if (columns.label) table.at(index).label = fields[*columns.label];
    uint64_t total = 0;
    for (const uint32_t count : row) total += count;
    totals.push_back(total);
    counts.of_function.push_back(row);
  }
  if (!options.skip_bad_rows) RETURN_IF_ERROR(bad.verdict(kSkipBadRows));

  Trace trace{.format = "minutes", .functions = table.take()};
  trace.skipped_rows = bad.count();
  ASSIGN_OR_RETURN(trace.length, length_at_rate(kMinute * static_cast<int64_t>(counts.minutes),
                                                options.rate_scale, file));
  ASSIGN_OR_RETURN(const auto new_index,
                   choose_functions(trace.functions, totals, options.only, options.busiest));
  Counts chosen{.minutes = counts.minutes};
  for (size_t i = 0; i < new_index.size(); ++i) {
    if (new_index[i] != kNotChosen) chosen.of_function.push_back(std::move(counts.of_function[i]));
  }
  RETURN_IF_ERROR(check_minutes(chosen, file));
  trace.assumptions.push_back(words_of(options.spreading, kMinute, options.seed));
  trace.arrivals = std::make_unique<MinuteSource>(std::move(chosen), options);
  return trace;
}

}  // namespace lambent::workload
