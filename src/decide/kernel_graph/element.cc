#include "decide/kernel_graph/element.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/check.h"

namespace lambent::kernel_graph {
namespace {

template <typename Number>
ElementProblem store(Number number, char* out) {
  std::memcpy(out, &number, sizeof(number));
  return ElementProblem::kNone;
}

bool is_number(std::string_view token) {
  return !token.empty() && (token[0] == '-' || (token[0] >= '0' && token[0] <= '9'));
}

template <typename Number>
ElementProblem read_whole(std::string_view token, char* out) {
  if (!is_number(token) || token.find_first_of(".eE") != std::string_view::npos) {
    return ElementProblem::kWrongKind;
  }
  if (token == "-0") return store(Number{0}, out);
  Number number{};
  const auto [end, error] = std::from_chars(token.begin(), token.end(), number);
  if (error != std::errc() || end != token.end()) return ElementProblem::kOutOfRange;
  return store(number, out);
}

// Whether a JSON number lies closer to zero than 1, only by its digits and its exponent.
bool is_small(std::string_view token) {
  const size_t e = token.find_first_of("eE");
  const std::string_view digits = token.substr(0, e);
  // The number is 0.d... times ten to the power of `places`, if d is the first digit that counts.
  const size_t point = std::min(digits.find('.'), digits.size());
  const size_t first = digits.find_first_of("123456789");
  if (first == std::string_view::npos) return true;
  const long places = static_cast<long>(point) - static_cast<long>(first) + (first > point ? 1 : 0);
  if (e == std::string_view::npos) return places < 1;
  std::string_view exponent = token.substr(e + 1);
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  long power = 0;
  const auto [end, error] = std::from_chars(exponent.begin(), exponent.end(), power);
  if (error != std::errc() || std::abs(power) > (1L << 40)) return exponent.starts_with('-');
  return places + power < 1;
}

template <typename Number>
ElementProblem read_fraction(std::string_view token, char* out) {
  using Limits = std::numeric_limits<Number>;
  if (token == "\"NaN\"") return store(Limits::quiet_NaN(), out);
  if (token == "\"Infinity\"") return store(Limits::infinity(), out);
  if (token == "\"-Infinity\"") return store(-Limits::infinity(), out);
  if (!is_number(token)) return ElementProblem::kWrongKind;
  Number number{};
  const auto [end, error] = std::from_chars(token.begin(), token.end(), number);
  if (error == std::errc() && end == token.end() && std::isfinite(number)) {
    return store(number, out);
  }
  // Too small is zero, too large is a mistake; from_chars calls both out of range.
  if (error == std::errc::result_out_of_range && is_small(token)) {
    return store(token[0] == '-' ? -Number{0} : Number{0}, out);
  }
  return ElementProblem::kOutOfRange;
}

ElementProblem read_bool(std::string_view token, char* out) {
  if (token == "true" || token == "1") return store(uint8_t{1}, out);
  if (token == "false" || token == "0") return store(uint8_t{0}, out);
  return is_number(token) ? ElementProblem::kOutOfRange : ElementProblem::kWrongKind;
}

template <typename Number>
Number load(const char* bytes) {
  Number number;
  std::memcpy(&number, bytes, sizeof(number));
  return number;
}

template <typename Number>
void append_number(const char* bytes, std::string& out) {
  const Number number = load<Number>(bytes);
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(number)) {
      out += std::isnan(number) ? "\"NaN\"" : number > 0 ? "\"Infinity\"" : "\"-Infinity\"";
      return;
    }
  }
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), number).ptr;
  out.append(text, end);
}

}  // namespace

bool has_json_form(DataType type) {
  return type != DataType::kBytes && type != DataType::kFp16 && type != DataType::kBf16;
}

ElementProblem read_element(DataType type, std::string_view token, char* out) {
  switch (type) {
    case DataType::kBool:
      return read_bool(token, out);
    case DataType::kUint8:
      return read_whole<uint8_t>(token, out);
    case DataType::kUint16:
      return read_whole<uint16_t>(token, out);
    case DataType::kUint32:
      return read_whole<uint32_t>(token, out);
    case DataType::kUint64:
      return read_whole<uint64_t>(token, out);
    case DataType::kInt8:
      return read_whole<int8_t>(token, out);
    case DataType::kInt16:
      return read_whole<int16_t>(token, out);
    case DataType::kInt32:
      return read_whole<int32_t>(token, out);
    case DataType::kInt64:
      return read_whole<int64_t>(token, out);
    case DataType::kFp32:
      return read_fraction<float>(token, out);
    case DataType::kFp64:
      return read_fraction<double>(token, out);
    case DataType::kBytes:
    case DataType::kFp16:
    case DataType::kBf16:
      break;
  }
  return ElementProblem::kNoJsonForm;
}

std::string describe(ElementProblem problem, DataType type, std::string_view token) {
  constexpr size_t kMostShown = 40;
  std::string shown(token.substr(0, kMostShown));
  if (token.size() > kMostShown) shown += "...";
  const std::string name(name_of(type));
  switch (problem) {
    case ElementProblem::kNone:
      break;
    case ElementProblem::kWrongKind:
      return shown + " is no value of " + name;
    case ElementProblem::kOutOfRange:
      return shown + " is out of range of " + name;
    case ElementProblem::kNoJsonForm:
      return name + " has no JSON form; give its bytes in base64";
  }
  return shown + " is well";
}

void append_element(DataType type, const char* bytes, std::string& out) {
  switch (type) {
    case DataType::kBool:
      out += *bytes == 0 ? "false" : "true";
      return;
    case DataType::kUint8:
      return append_number<uint8_t>(bytes, out);
    case DataType::kUint16:
      return append_number<uint16_t>(bytes, out);
    case DataType::kUint32:
      return append_number<uint32_t>(bytes, out);
    case DataType::kUint64:
      return append_number<uint64_t>(bytes, out);
    case DataType::kInt8:
      return append_number<int8_t>(bytes, out);
    case DataType::kInt16:
      return append_number<int16_t>(bytes, out);
    case DataType::kInt32:
      return append_number<int32_t>(bytes, out);
    case DataType::kInt64:
      return append_number<int64_t>(bytes, out);
    case DataType::kFp32:
      return append_number<float>(bytes, out);
    case DataType::kFp64:
      return append_number<double>(bytes, out);
    case DataType::kBytes:
    case DataType::kFp16:
    case DataType::kBf16:
      break;
  }
  CHECK(false, "only datatypes with a JSON form are written as JSON");
}

}  // namespace lambent::kernel_graph
