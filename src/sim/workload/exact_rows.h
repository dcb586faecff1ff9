// ExactRows: the rows of a trace with a row per invocation, checked one by one. Pure; used by
// exact_trace and exact_source, which read the same rows one after the other.
#pragma once

#include <string>

#include "core/base/time.h"
#include "sim/workload/csv.h"
#include "sim/workload/table_layout.h"

namespace lambent::workload {

struct ExactRow {
  // As the file has it: since its begin where the layout is relative, else since whatever its
  // clock counts from.
  Duration at{};
  std::string_view function;  // valid until the next row
  float execution_s = 0;      // by itself; zero where the layout has no run times
  unsigned gpu_count = 0;     // zero where the layout has none
};

class ExactRows {
 public:
  // The layout is of these rows; functions that it does not name are called `file_function`.
  ExactRows(RowReader rows, TableLayout layout, std::string file_function)
      : rows_(std::move(rows)),
        layout_(std::move(layout)),
        file_function_(std::move(file_function)) {}

  // The next good row; what is wrong with others is noted in `bad`. False at the end.
  Result<bool> next(ExactRow& row, BadRows& bad);
  // Whether no row so far was before the one before it.
  bool in_order() const { return in_order_; }
  // Rows that the layout's filters left out so far, by filter.
  const std::vector<uint64_t>& left_out() const { return left_out_; }
  const TableLayout& layout() const { return layout_; }
  const std::vector<std::string>& header() const { return rows_.header(); }

 private:
  // Each returns what is wrong, if anything is.
  std::string parse(ExactRow& row);
  std::string read_times(ExactRow& row);
  std::string read_run_time(Duration arrived, std::optional<Duration> started,
                            std::optional<Duration> ended, Duration& run) const;
  std::string check_order(Duration at);
  std::string read_moment(const std::optional<TimeColumn>& column,
                          std::optional<Duration>& moment) const;
  bool is_left_out();
  std::string_view name_of_row();

  RowReader rows_;
  TableLayout layout_;
  std::string file_function_;
  std::optional<Duration> first_, last_;
  bool in_order_ = true;
  std::vector<uint64_t> left_out_;
  std::vector<std::string_view> fields_;
  std::string name_;
};

// The column `function`, or `func`; nothing if the header has neither.
std::optional<size_t> function_column(const RowReader& rows);

// A field as errors show it: in quotes, and not all of it if it is long.
std::string quoted(std::string_view text);

}  // namespace lambent::workload
