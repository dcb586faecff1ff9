// TableLayout: which columns of a table with a row per invocation say when it came, of which
// function it was and how long it ran. From flags (--column), or known by the header. Pure; used by
// the reader of traces.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "sim/workload/csv.h"
#include "sim/workload/time_text.h"

namespace lambent::workload {

// What a column can say.
enum class ColumnRole {
  kTime,  // when the invocation came
  kStart,
  kEnd,
  kDuration,
  kFunction,
  kInputTokens,
  kOutputTokens,
};

// One --column: "time=timestamp_s", "end=finish:ms", "function=app+user".
struct ColumnChoice {
  ColumnRole role = ColumnRole::kTime;
  std::string column;
  std::optional<TimeUnit> unit;  // as the user says, or the column's name
};
// INVALID_ARGUMENT if it is none.
Result<ColumnChoice> parse_column_choice(std::string_view text);

// How fast a model reads and writes, one request at a time.
struct TokenRates {
  double input_per_s = 10'000;
  double output_per_s = 50;
};
// "10000,50". INVALID_ARGUMENT for others than two numbers from 1e-3 to 1e9.
Result<TokenRates> parse_token_rates(std::string_view text);

struct TimeColumn {
  size_t at = 0;
  std::string name;
  TimeUnit unit = TimeUnit::kSeconds;
  bool unit_is_guessed = false;  // it is dates because nothing said what it is
};

// A function's name is made of these.
struct NameColumn {
  size_t at = 0;
  bool without_last_part = false;  // of "pool22-300-128-0000618412", what is before the last dash
};

// Rows that are left out and are not bad: they are no invocations on a GPU, or have no end yet.
struct RowFilter {
  size_t at = 0;
  enum class Keeps { kAboveZero, kFilled, kOthersThan } keeps = Keeps::kFilled;
  std::vector<std::string> others_than;
  std::string because;  // "asks for no GPU"
};

struct TableLayout {
  std::string format;  // as Trace::format
  std::optional<TimeColumn> time, start, end, duration;
  std::vector<NameColumn> function;  // empty: all are of one, called as the file is
  std::string name_joint = "-";
  std::optional<size_t> input_tokens, output_tokens;
  TokenRates rates;
  std::optional<size_t> gpu_count;  // of the function
  std::vector<RowFilter> filters;
  // Times count from the file's begin and rows are in their order, or a row is bad. Otherwise they
  // count from the earliest row, wherever it stands.
  bool is_relative = false;
  // What the format leaves open and was decided here, for the user.
  std::vector<std::string> assumptions;

  bool has_run_times() const { return duration || end || input_tokens || output_tokens; }
};

// By the choices: INVALID_ARGUMENT if the header lacks a column, or they do not say when rows come,
// or say twice how long they run.
Result<TableLayout> layout_of(const std::vector<ColumnChoice>& choices, const RowReader& rows,
                              const std::string& file, const TokenRates& rates);

}  // namespace lambent::workload
