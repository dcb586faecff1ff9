#include "decide/pipeline/document.h"

#include <cmath>

#include "decide/pipeline/limits.h"

namespace lambent::pipeline {

Result<Json> parse_numbered(std::string_view text, std::string_view subject, const char* format) {
  const std::string place(subject);
  ASSIGN_OR_RETURN(
      Json root,
      parse_document(text, limits::kJson, {.subject = subject, .most_depth = limits::kJsonDepth}));
  if (!root.is_object()) return invalid_at(place, "an object is expected");
  ASSIGN_OR_RETURN(const Json* version, required_member(root, place, format));
  if (!version->is_number_unsigned() || version->get<uint64_t>() != 1) {
    return invalid_at(format, "1 is expected: the only form that is known");
  }
  return root;
}

Result<Bytes> megabytes_value(const Json& value, const std::string& place) {
  constexpr double kMb = 1'048'576;
  ASSIGN_OR_RETURN(const double number, number_value(value, place, 0, limits::kMemory.count / kMb));
  return Bytes(static_cast<uint64_t>(std::llround(number * kMb)));
}

Result<Duration> milliseconds_value(const Json& value, const std::string& place) {
  ASSIGN_OR_RETURN(const double number,
                   number_value(value, place, 0, to_milliseconds(limits::kTime)));
  return Duration(std::llround(number * 1e6));
}

Json megabytes_json(Bytes bytes) {
  constexpr uint64_t kMb = 1'048'576;
  if (bytes.count % kMb == 0) return bytes.count / kMb;
  return static_cast<double>(bytes.count) / kMb;
}

Json milliseconds_json(Duration duration) {
  if (duration.count() % 1'000'000 == 0) return duration.count() / 1'000'000;
  return static_cast<double>(duration.count()) / 1e6;
}

}  // namespace lambent::pipeline
