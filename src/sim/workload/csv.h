// Comma-separated rows: splitting, numbers, columns by name, and the collection of bad rows that an
// error then names by line. Pure; used by the readers of traces and catalogues.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "sim/workload/lines.h"

namespace lambent::workload {

// Cuts a row at its commas. A field may stand in quotes; quotes inside quotes are refused (false).
bool split_row(std::string_view row, std::vector<std::string_view>& fields);

// The text as a field of a row that is written: in quotes where a comma or a quote would break it.
std::string csv_field(const std::string& text);

// The whole text as a finite number or a whole number; nothing otherwise.
std::optional<double> number_of(std::string_view text);
std::optional<uint64_t> whole_number_of(std::string_view text);

// What can be done about the bad rows of a trace.
constexpr std::string_view kSkipBadRows = "; --skip-bad-rows leaves such rows out";

// Counts the bad rows of one file and keeps the words for the first few.
class BadRows {
 public:
  explicit BadRows(std::string file) : file_(std::move(file)) {}
  void add(size_t line, std::string_view why);
  size_t count() const { return count_; }
  // INVALID_ARGUMENT with file name, number of bad rows and the first few with their lines, and
  // what can be done about it; good if there were none.
  Result<void> verdict(std::string_view remedy = "") const;

 private:
  static constexpr size_t kShown = 5;
  std::string file_;
  size_t count_ = 0;
  std::vector<std::string> shown_;
};

// Reads a file with a header line row by row, counting lines.
class RowReader {
 public:
  // Takes the header. INVALID_ARGUMENT if there is none.
  static Result<RowReader> start(LineReader& lines, std::string file);

  // Where the column of that name is; nothing if the header lacks it.
  std::optional<size_t> column(std::string_view name) const;
  // The same, as an error that names the file.
  Result<size_t> required_column(std::string_view name) const;
  const std::vector<std::string>& header() const { return header_; }

  // The next row with as many fields as the header; rows with another number are noted in `bad`,
  // empty lines are passed over. False at the end.
  Result<bool> next(std::vector<std::string_view>& fields, BadRows& bad);
  // The number of the line that next() gave last; the header is line 1.
  size_t line() const { return line_; }

 private:
  RowReader(LineReader& lines, std::string file) : lines_(&lines), file_(std::move(file)) {}

  LineReader* lines_;
  std::string file_;
  std::vector<std::string> header_;
  size_t line_ = 0;
};

}  // namespace lambent::workload
