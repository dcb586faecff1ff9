#include "sim/workload/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/workload/file_kind.h"
#include "sim/workload/limits.h"

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

// Reads one object in time that only grows with its length. It gives the keys of the object itself
// to `begin`, which returns where the value's text goes, or null if it is not wanted; lists and
// objects have no text. Of equal keys the last one counts.
class ObjectReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  using Begin = std::function<std::string*(std::string&)>;
  explicit ObjectReader(const Begin& begin) : begin_(begin) {}

  bool null() override { return give({}); }
  bool boolean(bool value) override { return give(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return give(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return give(std::to_string(value)); }
  bool number_float(number_float_t value, const string_t&) override {
    return give(nlohmann::json(value).dump());
  }
  bool string(string_t& value) override { return give(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return ++depth_ > 0; }
  bool end_object() override { return --depth_ >= 0; }
  // What begins with a list is no object.
  bool start_array(size_t) override { return depth_++ > 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool key(string_t& key) override {
    if (depth_ > 1) return true;
    value_ = begin_(key);
    if (value_ != nullptr) value_->clear();
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool give(std::string text) {
    if (depth_ == 0) return false;
    if (depth_ == 1 && value_ != nullptr) *value_ = std::move(text);
    return true;
  }

  const Begin& begin_;
  std::string* value_ = nullptr;
  int depth_ = 0;
};

// Whether the line is an object and nothing else.
bool read_json_object(std::string_view line, const ObjectReader::Begin& begin) {
  ObjectReader reader(begin);
  return nlohmann::json::sax_parse(line, &reader);
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

Result<void> RowReader::check_width() const {
  if (header_.size() <= limits::kTraceColumns) return {};
  return Error{ErrorCode::kOutOfRange, file_ + " line 1: there are " +
                                           std::to_string(header_.size()) + " columns; at most " +
                                           std::to_string(limits::kTraceColumns) + " fit"};
}

Result<void> RowReader::start_json(std::string_view line) {
  const bool is_object = read_json_object(line, [&](std::string& key) -> std::string* {
    if (column_of_key_.emplace(key, header_.size()).second) header_.push_back(std::move(key));
    return nullptr;
  });
  if (!is_object) {
    return Error{ErrorCode::kInvalidArgument, file_ +
                                                  " line 1: begins as JSON, but is no object in "
                                                  "one line; jq -c . writes one a line"};
  }
  is_json_ = true;
  values_.resize(header_.size());
  first_row_ = std::string(line);
  return {};
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
    RETURN_IF_ERROR(reader.start_json(line));
    RETURN_IF_ERROR(reader.check_width());
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
  RETURN_IF_ERROR(reader.check_width());
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
  for (std::string& value : values_) value.clear();
  const bool is_object = read_json_object(line, [&](std::string& key) -> std::string* {
    const auto column = column_of_key_.find(key);
    return column == column_of_key_.end() ? nullptr : &values_[column->second];
  });
  if (!is_object) return "no JSON object";
  fields.assign(values_.begin(), values_.end());
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
