#include "sim/workload/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/workload/file_kind.h"

namespace lambent::workload {
namespace {

template <typename Number>
std::optional<Number> parsed(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stopped, code] = std::from_chars(text.data(), end, number);
  if (code != std::errc() || stopped != end || text.empty()) return std::nullopt;
  return number;
}

// The value as the text of a field; lists and objects are none.
std::string field_of(const nlohmann::ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number() || value.is_boolean() ? value.dump() : std::string();
}

nlohmann::ordered_json object_in(std::string_view line) {
  auto object = nlohmann::ordered_json::parse(line, nullptr, false);
  return object.is_object() ? object : nlohmann::ordered_json();
}

}  // namespace

bool split_row(std::string_view row, std::vector<std::string_view>& fields, char delimiter) {
  fields.clear();
  for (;;) {
    size_t end = 0;
    if (!row.empty() && row.front() == '"') {
      const size_t close = row.find('"', 1);
      if (close == std::string_view::npos) return false;
      end = close + 1;
      if (end < row.size() && row[end] != delimiter) return false;
      fields.push_back(row.substr(1, close - 1));
    } else {
      end = std::min(row.find(delimiter), row.size());
      fields.push_back(row.substr(0, end));
    }
    if (end >= row.size()) return true;
    row.remove_prefix(end + 1);
  }
}

char delimiter_of(std::string_view row) {
  constexpr std::string_view kDelimiters = ",\t;|";
  size_t counts[kDelimiters.size()] = {};
  bool in_quotes = false;
  for (const char c : row) {
    if (c == '"') in_quotes = !in_quotes;
    const size_t which = in_quotes ? std::string_view::npos : kDelimiters.find(c);
    if (which != std::string_view::npos) ++counts[which];
  }
  // Of equal ones the first.
  return kDelimiters[static_cast<size_t>(std::max_element(std::begin(counts), std::end(counts)) -
                                         std::begin(counts))];
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::optional<double> number_of(std::string_view text) {
  const std::optional<double> number = parsed<double>(text);
  if (!number || !std::isfinite(*number)) return std::nullopt;
  return number;
}

std::optional<uint64_t> whole_number_of(std::string_view text) { return parsed<uint64_t>(text); }

void BadRows::add(size_t line, std::string_view why) {
  ++count_;
  if (shown_.size() < kShown) {
    shown_.push_back("line " + std::to_string(line) + ": " + std::string(why));
  }
}

Result<void> BadRows::verdict(std::string_view remedy) const {
  if (count_ == 0) return {};
  std::string message =
      file_ + " has " + std::to_string(count_) + (count_ == 1 ? " bad row: " : " bad rows: ");
  for (size_t i = 0; i < shown_.size(); ++i) message += (i == 0 ? "" : "; ") + shown_[i];
  if (count_ > shown_.size()) {
    message += "; and " + std::to_string(count_ - shown_.size()) + " more";
  }
  message += remedy;
  return Error{ErrorCode::kInvalidArgument, message};
}

Error RowReader::no_header() const {
  return Error{ErrorCode::kInvalidArgument,
               file_ + " line 1: there is no header, which names the columns"};
}

Result<RowReader> RowReader::start(LineReader& lines, std::string file,
                                   std::vector<std::string> header) {
  RowReader reader(lines, std::move(file));
  auto first = lines.next();
  if (!first.ok()) return first.error().with_context(reader.file_ + " line 1");
  std::string_view line = first.value().value_or(std::string_view());
  if (const std::string because = no_table_because(line, reader.file_); !because.empty()) {
    return Error{ErrorCode::kInvalidArgument, reader.file_ + " " + because};
  }
  // As spreadsheets begin what they write.
  if (line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  if (line.starts_with("{")) {
    const auto object = object_in(line);
    if (object.is_null()) {
      return Error{ErrorCode::kInvalidArgument,
                   reader.file_ +
                       " line 1: begins as JSON, but is no object in one line; "
                       "jq -c . writes one a line"};
    }
    reader.is_json_ = true;
    for (const auto& [key, value] : object.items()) reader.header_.push_back(key);
    reader.values_.resize(reader.header_.size());
    reader.first_row_ = std::string(line);
    return reader;
  }
  reader.delimiter_ = delimiter_of(line);
  std::vector<std::string_view> fields;
  if (line.empty() || !split_row(line, fields, reader.delimiter_)) return reader.no_header();
  if (!header.empty()) {
    reader.header_ = std::move(header);
    reader.first_row_ = std::string(line);
    return reader;
  }
  reader.line_ = 1;
  reader.header_.assign(fields.begin(), fields.end());
  return reader;
}

std::optional<size_t> RowReader::column(std::string_view name) const {
  for (size_t i = 0; i < header_.size(); ++i) {
    if (header_[i] == name) return i;
  }
  return std::nullopt;
}

Result<size_t> RowReader::required_column(std::string_view name) const {
  if (const auto found = column(name)) return *found;
  return Error{ErrorCode::kInvalidArgument,
               file_ + " line 1: the header has no column '" + std::string(name) + "'"};
}

std::string RowReader::read_object(std::string_view line, std::vector<std::string_view>& fields) {
  const auto object = object_in(line);
  if (object.is_null()) return "no JSON object";
  fields.clear();
  for (size_t i = 0; i < header_.size(); ++i) {
    const auto found = object.find(header_[i]);
    values_[i] = found == object.end() ? std::string() : field_of(*found);
    fields.push_back(values_[i]);
  }
  return {};
}

std::string RowReader::read_delimited(std::string_view line,
                                      std::vector<std::string_view>& fields) const {
  if (!split_row(line, fields, delimiter_))
    return "a quoted field does not end, or has quotes inside";
  if (fields.size() == header_.size()) return {};
  return std::to_string(fields.size()) + " fields where the header has " +
         std::to_string(header_.size());
}

Result<bool> RowReader::next(std::vector<std::string_view>& fields, BadRows& bad) {
  for (;;) {
    ++line_;
    std::string_view line;
    if (first_row_ && line_ == 1) {
      line = *first_row_;
    } else {
      auto row = lines_->next();
      if (!row.ok()) return row.error().with_context(file_ + " line " + std::to_string(line_));
      if (!row.value().has_value()) return false;
      line = **row;
    }
    if (line.empty()) continue;
    const std::string wrong = is_json_ ? read_object(line, fields) : read_delimited(line, fields);
    if (wrong.empty()) return true;
    bad.add(line_, wrong);
  }
}

}  // namespace lambent::workload
