#include "sim/workload/exact_rows.h"

namespace lambent::workload {

Result<ExactRows> ExactRows::start(RowReader rows, const std::string& file) {
  ASSIGN_OR_RETURN(const size_t time, rows.required_column("t_ms"));
  const auto function = function_column(rows);
  if (!function) {
    return Error{ErrorCode::kInvalidArgument,
                 file + " line 1: the header has no column 'function' or 'func'"};
  }
  // A user who gives times of execution, say, has to learn that they would not be used.
  for (size_t i = 0; i < rows.header().size(); ++i) {
    if (i == time || i == *function) continue;
    return Error{ErrorCode::kInvalidArgument, file + " line 1: nothing is known of the column " +
                                                  quoted(rows.header()[i]) +
                                                  ": rows have t_ms and function; leave it out"};
  }
  return ExactRows(std::move(rows), time, *function);
}

// Beyond this it is no clock's time either.
constexpr double kMostClock = 1e20;

Result<bool> ExactRows::next(ExactRow& row, BadRows& bad) {
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows_.next(fields_, bad));
    if (!more) return false;
    const std::string_view time = fields_[time_];
    const auto t_ms = number_of(time);
    if (t_ms && *t_ms > kMostSeconds * 1e3 && *t_ms < kMostClock) {
      bad.add(rows_.line(), "t_ms is " + quoted(time) +
                                ", too long after the start: times count from the trace's begin, "
                                "in milliseconds");
      continue;
    }
    if (!t_ms || *t_ms < 0 || *t_ms > kMostSeconds * 1e3) {
      bad.add(rows_.line(), "t_ms is " + quoted(time) + ", not a time in milliseconds");
    } else if (*t_ms < last_ms_) {
      bad.add(rows_.line(), "t_ms goes back to " + quoted(time) + "; sort the rows by t_ms");
    } else if (fields_[function_].empty()) {
      bad.add(rows_.line(), "the function has no name");
    } else {
      last_ms_ = *t_ms;
      row = {.at = from_seconds(*t_ms / 1e3), .function = fields_[function_]};
      return true;
    }
  }
}

std::optional<size_t> function_column(const RowReader& rows) {
  return rows.column("function") ? rows.column("function") : rows.column("func");
}

std::string quoted(std::string_view text) {
  constexpr size_t kMost = 40;
  return "'" + std::string(text.substr(0, kMost)) + (text.size() > kMost ? "...'" : "'");
}

}  // namespace lambent::workload
