#include "sim/workload/csv.h"

#include <charconv>
#include <cmath>
#include <utility>

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

// What a file is that begins so; empty if it may well be a table.
std::string_view other_kind_of_file(std::string_view begin) {
  constexpr std::pair<std::string_view, std::string_view> kKinds[] = {
      {"\xFD"
       "7zXZ",
       "packed with xz"},
      {"\x28\xB5\x2F\xFD", "packed with zstd"},
      {"BZh", "packed with bzip2"},
      {"PK\x03\x04", "a zip archive"},
      {"PAR1", "Parquet"},
      {"\xFF\xFE", "in UTF-16"},
      {"\xFE\xFF", "in UTF-16"},
  };
  for (const auto& [mark, kind] : kKinds) {
    if (begin.starts_with(mark)) return kind;
  }
  return {};
}

}  // namespace

bool split_row(std::string_view row, std::vector<std::string_view>& fields) {
  fields.clear();
  for (;;) {
    size_t end = 0;
    if (!row.empty() && row.front() == '"') {
      const size_t close = row.find('"', 1);
      if (close == std::string_view::npos) return false;
      end = close + 1;
      if (end < row.size() && row[end] != ',') return false;
      fields.push_back(row.substr(1, close - 1));
    } else {
      end = std::min(row.find(','), row.size());
      fields.push_back(row.substr(0, end));
    }
    if (end >= row.size()) return true;
    row.remove_prefix(end + 1);
  }
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

Result<RowReader> RowReader::start(LineReader& lines, std::string file) {
  RowReader reader(lines, std::move(file));
  auto first = lines.next();
  if (!first.ok()) return first.error().with_context(reader.file_ + " line 1");
  reader.line_ = 1;
  std::string_view header = first.value().value_or(std::string_view());
  if (const std::string_view kind = other_kind_of_file(header); !kind.empty()) {
    return Error{ErrorCode::kInvalidArgument, reader.file_ + " is " + std::string(kind) +
                                                  ": it has to be CSV in UTF-8, as it is or "
                                                  "packed with gzip"};
  }
  // As spreadsheets begin what they write.
  if (header.starts_with("\xEF\xBB\xBF")) header.remove_prefix(3);
  std::vector<std::string_view> fields;
  if (header.empty() || !split_row(header, fields)) {
    return Error{ErrorCode::kInvalidArgument,
                 reader.file_ + " line 1: there is no header, which names the columns"};
  }
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

Result<bool> RowReader::next(std::vector<std::string_view>& fields, BadRows& bad) {
  for (;;) {
    auto row = lines_->next();
    ++line_;
    if (!row.ok()) return row.error().with_context(file_ + " line " + std::to_string(line_));
    if (!row.value().has_value()) return false;
    if (row.value()->empty()) continue;
    if (!split_row(**row, fields)) {
      bad.add(line_, "a quoted field does not end, or has quotes inside");
    } else if (fields.size() != header_.size()) {
      bad.add(line_, std::to_string(fields.size()) + " fields where the header has " +
                         std::to_string(header_.size()));
    } else {
      return true;
    }
  }
}

}  // namespace lambent::workload
