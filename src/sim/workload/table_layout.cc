#include "sim/workload/table_layout.h"

#include <algorithm>
#include <utility>

#include "sim/workload/exact_rows.h"

namespace lambent::workload {
namespace {

constexpr std::pair<std::string_view, ColumnRole> kRoles[] = {
    {"time", ColumnRole::kTime},
    {"start", ColumnRole::kStart},
    {"end", ColumnRole::kEnd},
    {"duration", ColumnRole::kDuration},
    {"function", ColumnRole::kFunction},
    {"input-tokens", ColumnRole::kInputTokens},
    {"output-tokens", ColumnRole::kOutputTokens},
};

std::string_view name_of(ColumnRole role) {
  for (const auto& [name, each] : kRoles) {
    if (each == role) return name;
  }
  return "";
}

bool is_time(ColumnRole role) {
  return role == ColumnRole::kTime || role == ColumnRole::kStart || role == ColumnRole::kEnd ||
         role == ColumnRole::kDuration;
}

Error bad(const std::string& why) { return Error{ErrorCode::kInvalidArgument, why}; }

Result<size_t> column_of(const std::string& name, const RowReader& rows, const std::string& file) {
  if (const auto at = rows.column(name)) return *at;
  std::string names;
  for (const std::string& each : rows.header()) {
    constexpr size_t kMostShown = 200;
    if (names.size() > kMostShown) {
      names += ", ...";
      break;
    }
    names += (names.empty() ? "" : ", ") + each.substr(0, kMostShown);
  }
  return bad(file + " line 1: the header has no column " + quoted(name) + "; it has " + names);
}

// "a+b" is one column of that name, or else two.
Result<std::vector<NameColumn>> name_columns(const std::string& text, const RowReader& rows,
                                             const std::string& file) {
  std::vector<NameColumn> columns;
  if (const auto at = rows.column(text)) {
    columns.push_back({.at = *at});
    return columns;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('+', begin), text.size());
    ASSIGN_OR_RETURN(const size_t at, column_of(text.substr(begin, end - begin), rows, file));
    columns.push_back({.at = at});
    begin = end + 1;
  }
  return columns;
}

Result<TimeColumn> time_column(const ColumnChoice& choice, const RowReader& rows,
                               const std::string& file) {
  ASSIGN_OR_RETURN(const size_t at, column_of(choice.column, rows, file));
  const bool is_duration = choice.role == ColumnRole::kDuration;
  if (is_duration && (!choice.unit || *choice.unit == TimeUnit::kDate)) {
    return bad("--column duration=" + choice.column +
               " needs its unit, such as duration=" + choice.column + ":s");
  }
  return TimeColumn{.at = at,
                    .name = choice.column,
                    .unit = choice.unit.value_or(TimeUnit::kDate),
                    .unit_is_guessed = !choice.unit};
}

Result<void> put(const ColumnChoice& choice, const RowReader& rows, const std::string& file,
                 TableLayout& layout) {
  if (choice.role == ColumnRole::kFunction) {
    ASSIGN_OR_RETURN(layout.function, name_columns(choice.column, rows, file));
    return {};
  }
  if (!is_time(choice.role)) {
    ASSIGN_OR_RETURN(const size_t at, column_of(choice.column, rows, file));
    (choice.role == ColumnRole::kInputTokens ? layout.input_tokens : layout.output_tokens) = at;
    return {};
  }
  ASSIGN_OR_RETURN(TimeColumn column, time_column(choice, rows, file));
  auto& place = choice.role == ColumnRole::kTime    ? layout.time
                : choice.role == ColumnRole::kStart ? layout.start
                : choice.role == ColumnRole::kEnd   ? layout.end
                                                    : layout.duration;
  place = std::move(column);
  return {};
}

}  // namespace

Result<ColumnChoice> parse_column_choice(std::string_view text) {
  const size_t equals = text.find('=');
  const auto role = std::find_if(std::begin(kRoles), std::end(kRoles), [&](const auto& each) {
    return each.first == text.substr(0, equals);
  });
  if (equals == std::string_view::npos || role == std::end(kRoles)) {
    return bad("'" + std::string(text.substr(0, 80)) +
               "' is not WHAT=COLUMN, where WHAT is time, start, end, duration, function, "
               "input-tokens or output-tokens");
  }
  ColumnChoice choice{.role = role->second, .column = std::string(text.substr(equals + 1))};
  if (is_time(choice.role)) {
    const size_t colon = choice.column.rfind(':');
    if (colon != std::string::npos) choice.unit = unit_from_name(choice.column.substr(colon + 1));
    if (choice.unit) {
      choice.column.resize(colon);
    } else {
      choice.unit = unit_of_column(choice.column);
    }
  }
  if (choice.column.empty()) {
    return bad("'" + std::string(text.substr(0, 80)) + "' names no column");
  }
  return choice;
}

Result<TokenRates> parse_token_rates(std::string_view text) {
  const size_t comma = text.find(',');
  const auto rate = [](std::string_view part) {
    const auto number = number_of(part);
    return number && *number >= 1e-3 && *number <= 1e9 ? number : std::nullopt;
  };
  if (comma != std::string_view::npos) {
    const auto input = rate(text.substr(0, comma));
    const auto output = rate(text.substr(comma + 1));
    if (input && output) return TokenRates{*input, *output};
  }
  return bad("'" + std::string(text.substr(0, 80)) +
             "' is not IN,OUT: tokens a second that are read and that are written, each from 0.001 "
             "to 1e9");
}

Result<TableLayout> layout_of(const std::vector<ColumnChoice>& choices, const RowReader& rows,
                              const std::string& file, const TokenRates& rates) {
  TableLayout layout{.format = "table", .rates = rates};
  std::vector<ColumnRole> chosen;
  for (const ColumnChoice& choice : choices) {
    if (std::find(chosen.begin(), chosen.end(), choice.role) != chosen.end()) {
      return bad("--column " + std::string(name_of(choice.role)) + "= is there twice");
    }
    chosen.push_back(choice.role);
    RETURN_IF_ERROR(put(choice, rows, file, layout));
  }
  const bool has_arrival = layout.time || layout.start;
  if (layout.duration && layout.end && has_arrival) {
    return bad("--column end= says how long rows ran, and duration= as well; leave one out");
  }
  if (layout.time && layout.start && !layout.end) {
    return bad("--column start= changes nothing beside time= without end=; leave it out");
  }
  const bool counts_tokens = layout.input_tokens || layout.output_tokens;
  if (counts_tokens && (layout.duration || layout.end)) {
    return bad("--column with tokens and with times both say how long rows ran; leave one out");
  }
  if (!has_arrival && !(layout.end && layout.duration)) {
    return bad(
        "--column time=COLUMN is missing: it says when rows came (or start=COLUMN, or "
        "end=COLUMN with duration=COLUMN)");
  }
  return layout;
}

}  // namespace lambent::workload
