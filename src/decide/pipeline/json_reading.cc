#include "decide/pipeline/json_reading.h"

#include <algorithm>
#include <cmath>

#include "core/base/json_survey.h"
#include "core/base/spelling.h"
#include "decide/pipeline/limits.h"

namespace lambent::pipeline {

Error invalid(const std::string& place, const std::string& what) {
  return {ErrorCode::kInvalidArgument, place + ": " + what};
}

std::string at(const std::string& place, size_t index) {
  return place + "[" + std::to_string(index) + "]";
}

Result<Json> parse_document(std::string_view text, std::string_view subject, const char* format) {
  const std::string place(subject);
  if (text.size() > limits::kJson.count) {
    return invalid(place, "is larger than " + to_string(limits::kJson));
  }
  RETURN_IF_ERROR(survey_json(text, {.subject = subject, .most_depth = limits::kJsonDepth}));
  Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded()) return invalid(place, "is no JSON");
  if (!root.is_object()) return invalid(place, "an object is expected");
  ASSIGN_OR_RETURN(const Json* version, member(root, place, format));
  if (!version->is_number_unsigned() || version->get<uint64_t>() != 1) {
    return invalid(format, "1 is expected: the only form that is known");
  }
  return root;
}

Result<void> check_keys(const Json& object, const std::string& place,
                        std::initializer_list<std::string_view> known) {
  if (!object.is_object()) return invalid(place, "an object is expected");
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    return invalid(place, "there is no '" + key.substr(0, limits::kNameLength) + "' here" +
                              did_you_mean(key, std::span(known.begin(), known.size())));
  }
  return {};
}

Result<const Json*> member(const Json& object, const std::string& place, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return invalid(place, "'" + std::string(key) + "' is missing");
  return &*found;
}

Result<const Json*> list_member(const Json& object, const std::string& place, const char* key,
                                const std::string& here, size_t most) {
  ASSIGN_OR_RETURN(const Json* list, member(object, place, key));
  if (!list->is_array() || list->empty())
    return invalid(here, "a list of at least one is expected");
  if (list->size() > most) {
    return invalid(here, "has " + std::to_string(list->size()) + " entries; at most " +
                             std::to_string(most) + " are taken");
  }
  return list;
}

Result<std::string> name_value(const Json& value, const std::string& place) {
  if (!value.is_string()) return invalid(place, "text is expected");
  const auto& name = value.get_ref<const std::string&>();
  const bool good = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
  if (name.empty() || name.size() > limits::kNameLength || !good) {
    return invalid(place, "1 to " + std::to_string(limits::kNameLength) +
                              " letters, digits, '-' and '_' are expected");
  }
  return name;
}

bool is_text(std::string_view text, size_t most_length) {
  // The parser has seen that it is UTF-8.
  return !text.empty() && text.size() <= most_length &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
}

Result<std::string> text_value(const Json& value, const std::string& place, size_t most_length) {
  if (!value.is_string() || !is_text(value.get_ref<const std::string&>(), most_length)) {
    return invalid(place, "text of 1 to " + std::to_string(most_length) + " bytes is expected");
  }
  return value.get<std::string>();
}

Result<double> number_value(const Json& value, const std::string& place, double least,
                            double most) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(number >= least && number <= most)) {
    const auto shown = [](double bound) { return Json(bound).dump(); };
    return invalid(place, "a number from " + shown(least) + " to " + shown(most) + " is expected");
  }
  return number;
}

Result<uint64_t> whole_value(const Json& value, const std::string& place, uint64_t least,
                             uint64_t most) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() < least ||
      value.get<uint64_t>() > most) {
    return invalid(place, "a whole number from " + std::to_string(least) + " to " +
                              std::to_string(most) + " is expected");
  }
  return value.get<uint64_t>();
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
