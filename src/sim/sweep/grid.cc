#include "sim/sweep/grid.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>

namespace lambent::sweep {
namespace {

constexpr size_t kMostValues = 10'000;

Error bad(const std::string& axis, const std::string& why) {
  return {ErrorCode::kInvalidArgument, "--vary " + axis + ": " + why};
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> pieces;
  size_t from = 0;
  for (;;) {
    const size_t to = text.find(separator, from);
    pieces.push_back(text.substr(from, to - from));
    if (to == std::string::npos) return pieces;
    from = to + 1;
  }
}

std::optional<double> number_of(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) {
    return std::nullopt;
  }
  return number;
}

// "0.3" for 0.30000000000000004, which steps of 0.1 come to.
std::string text_of(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.10g", number);
  return text;
}

// Whether it is a range of numbers at all: a path may have colons too.
bool is_range(const std::vector<std::string>& parts) {
  return (parts.size() == 2 || parts.size() == 3) && number_of(parts[0]) && number_of(parts[1]);
}

Result<std::vector<std::string>> values_of_range(const std::string& axis,
                                                 const std::vector<std::string>& parts) {
  const double first = *number_of(parts[0]);
  const double last = *number_of(parts[1]);
  const bool multiplies = parts.size() == 3 && parts[2].starts_with('x');
  std::optional<double> step = 1;
  if (parts.size() == 3) step = number_of(multiplies ? parts[2].substr(1) : parts[2]);
  if (!step || last < first) {
    return bad(axis, "a range is FIRST:LAST, FIRST:LAST:STEP or FIRST:LAST:xFACTOR, least first");
  }
  if (multiplies ? *step <= 1 || first <= 0 : *step <= 0) {
    return bad(axis, multiplies ? "a factor is above 1, and begins above 0" : "a step is above 0");
  }
  std::vector<std::string> values;
  // A little beyond the last, which rounding may miss.
  const double end = last + (last - first + std::fabs(last)) * 1e-9;
  for (size_t i = 0; values.size() <= kMostValues; ++i) {
    const auto steps = static_cast<double>(i);
    const double value = multiplies ? first * std::pow(*step, steps) : first + *step * steps;
    if (value > end) break;
    values.push_back(text_of(value));
  }
  return values;
}

}  // namespace

Result<Axis> parse_axis(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return bad(text, "write NAME=VALUE,VALUE,... or NAME=FIRST:LAST:STEP");
  }
  Axis axis{text.substr(0, equals), {}};
  for (const std::string& piece : split(text.substr(equals + 1), ',')) {
    if (piece.empty()) return bad(text, "a value is empty");
    const std::vector<std::string> parts = split(piece, ':');
    if (!is_range(parts)) {
      axis.values.push_back(piece);
      continue;
    }
    ASSIGN_OR_RETURN(const std::vector<std::string> values, values_of_range(text, parts));
    axis.values.insert(axis.values.end(), values.begin(), values.end());
  }
  if (axis.values.size() > kMostValues) {
    return bad(text, "more than " + std::to_string(kMostValues) + " values");
  }
  std::set<std::string> seen;
  for (const std::string& value : axis.values) {
    if (!seen.insert(value).second) return bad(text, "the value " + value + " is there twice");
  }
  return axis;
}

Result<void> Grid::check() const {
  std::set<std::string> names;
  double count = static_cast<double>(seeds);
  for (const Axis& axis : axes) {
    if (!names.insert(axis.name).second) return bad(axis.name, "is varied twice");
    count *= static_cast<double>(axis.values.size());
  }
  if (count > static_cast<double>(kMostCells)) {
    return Error{ErrorCode::kInvalidArgument, "the grid has " + text_of(count) +
                                                  " cells; at most " + std::to_string(kMostCells) +
                                                  " can be swept"};
  }
  return {};
}

size_t Grid::size() const {
  size_t count = seeds;
  for (const Axis& axis : axes) count *= axis.values.size();
  return count;
}

std::vector<Cell> Grid::cells() const {
  std::vector<Cell> all;
  all.reserve(size());
  for (size_t i = 0; i < size(); ++i) {
    Cell cell;
    size_t rest = i;
    cell.seed = first_seed + rest % seeds;
    rest /= seeds;
    cell.values.resize(axes.size());
    for (size_t a = axes.size(); a-- > 0;) {
      cell.values[a] = axes[a].values[rest % axes[a].values.size()];
      rest /= axes[a].values.size();
    }
    all.push_back(std::move(cell));
  }
  return all;
}

}  // namespace lambent::sweep
