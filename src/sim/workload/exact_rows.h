// ExactRows: the rows of a trace with exact times, checked one by one. Pure; used by exact_trace
// and exact_source, which read the same rows one after the other.
#pragma once

#include "core/base/time.h"
#include "sim/workload/csv.h"

namespace lambent::workload {

struct ExactRow {
  Duration at{};              // in the trace's own time
  std::string_view function;  // valid until the next row
};

class ExactRows {
 public:
  // INVALID_ARGUMENT if the header lacks a column.
  static Result<ExactRows> start(RowReader rows, const std::string& file);

  // The next good row, not before the one before it; what is wrong with others is noted in `bad`.
  // False at the end.
  Result<bool> next(ExactRow& row, BadRows& bad);

 private:
  ExactRows(RowReader rows, size_t time, size_t function)
      : rows_(std::move(rows)), time_(time), function_(function) {}

  RowReader rows_;
  size_t time_;
  size_t function_;
  double last_ms_ = 0;
  std::vector<std::string_view> fields_;
};

// The column `function`, or `func`; nothing if the header has neither.
std::optional<size_t> function_column(const RowReader& rows);

// Times far beyond any trace would overflow the clock's nanoseconds.
constexpr double kMostSeconds = 1e9;

// A field as errors show it: in quotes, and not all of it if it is long.
std::string quoted(std::string_view text);

}  // namespace lambent::workload
