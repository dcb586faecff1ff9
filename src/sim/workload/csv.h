// Rows of tables: splitting, numbers, columns by name, and the collection of bad rows that an
// error then names by line. Pure; used by the readers of traces and catalogues.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/result.h"
#include "sim/workload/lines.h"

namespace lambent::workload {

// Cuts a row at its delimiters. A field may stand in quotes; quotes inside quotes are refused
// (false).
bool split_row(std::string_view row, std::vector<std::string_view>& fields, char delimiter = ',');
// What the row has most of outside quotes: a comma, a tab, a semicolon or a bar; a comma if none.
char delimiter_of(std::string_view row);

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

// Reads a table row by row, counting lines: delimited text below a header line, or JSON lines. Of
// these the first object's keys are the header. Later objects may lack some, which are then empty,
// and what more they have is left out; so are lists and objects.
class RowReader {
 public:
  // Takes the header, if `header` does not name the columns of a file that has none.
  // INVALID_ARGUMENT if there is no header, or the file is no table; it says what helps.
  // OUT_OF_RANGE if it has more than limits::kTraceColumns columns.
  static Result<RowReader> start(LineReader& lines, std::string file,
                                 std::vector<std::string> header = {});

  // Where the column of that name is; nothing if the header lacks it.
  std::optional<size_t> column(std::string_view name) const;
  // The same, as an error that names the file.
  Result<size_t> required_column(std::string_view name) const;
  const std::vector<std::string>& header() const { return header_; }

  // The next row with as many fields as the header; rows with another number are noted in `bad`,
  // empty lines are passed over. False at the end. The fields are valid until the next call.
  Result<bool> next(std::vector<std::string_view>& fields, BadRows& bad);
  // The number of the line that next() gave last; the header is line 1.
  size_t line() const { return line_; }

 private:
  RowReader(LineReader& lines, std::string file) : lines_(&lines), file_(std::move(file)) {}
  Error no_header() const;
  Result<void> check_width() const;
  Result<void> start_json(std::string_view line);
  // Fills `fields` from a line; otherwise what is wrong with it.
  std::string read_object(std::string_view line, std::vector<std::string_view>& fields);
  std::string read_delimited(std::string_view line, std::vector<std::string_view>& fields) const;

  LineReader* lines_;
  std::string file_;
  std::vector<std::string> header_;
  char delimiter_ = ',';
  bool is_json_ = false;
  // The first line where it is a row already.
  std::optional<std::string> first_row_;
  std::unordered_map<std::string, size_t> column_of_key_;  // of objects
  std::vector<std::string> values_;                        // of an object, by the header
  size_t line_ = 0;
};

}  // namespace lambent::workload
