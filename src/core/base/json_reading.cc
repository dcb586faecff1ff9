#include "core/base/json_reading.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "core/base/spelling.h"

namespace lambent {
namespace {

constexpr size_t kLongestShownKey = 64;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

}  // namespace

Result<Json> parse_document(std::string_view text, Bytes most, const JsonSurvey& survey) {
  const std::string place(survey.subject);
  if (text.size() > most.count) return invalid_at(place, "is larger than " + to_string(most));
  RETURN_IF_ERROR(survey_json(text, survey));
  Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded()) return invalid_at(place, "is no JSON");
  return root;
}

Result<void> check_keys(const Json& object, const std::string& place,
                        std::initializer_list<std::string_view> known) {
  if (!object.is_object()) return invalid_at(place, "an object is expected");
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    return invalid_at(place, "there is no '" + key.substr(0, kLongestShownKey) + "' here" +
                                 did_you_mean(key, std::span(known.begin(), known.size())));
  }
  return {};
}

Result<const Json*> required_member(const Json& object, const std::string& place, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return invalid_at(place, "'" + std::string(key) + "' is missing");
  return &*found;
}

Result<const Json*> required_list(const Json& object, const std::string& place, const char* key,
                                  const std::string& here, size_t most) {
  ASSIGN_OR_RETURN(const Json* list, required_member(object, place, key));
  if (!list->is_array() || list->empty()) {
    return invalid_at(here, "a list of at least one is expected");
  }
  if (list->size() > most) {
    return invalid_at(here, "has " + std::to_string(list->size()) + " entries; at most " +
                                std::to_string(most) + " are taken");
  }
  return list;
}

Result<bool> flag_member(const Json& object, const std::string& place, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return false;
  if (!found->is_boolean()) {
    return invalid_at(member_place(place, key), "true or false is expected");
  }
  return found->get<bool>();
}

Result<std::string> name_value(const Json& value, const std::string& place, size_t most_length) {
  if (!value.is_string()) return invalid_at(place, "text is expected");
  const auto& name = value.get_ref<const std::string&>();
  if (name.empty() || name.size() > most_length ||
      !std::all_of(name.begin(), name.end(), is_name_character)) {
    return invalid_at(place, "1 to " + std::to_string(most_length) +
                                 " letters, digits, '-' and '_' are expected");
  }
  return name;
}

bool is_text(std::string_view text, size_t most_length) {
  // The parser has checked that it is UTF-8.
  return !text.empty() && text.size() <= most_length &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
}

Result<double> number_value(const Json& value, const std::string& place, double least,
                            double most) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(number >= least && number <= most)) {
    const auto shown = [](double bound) { return Json(bound).dump(); };
    return invalid_at(place,
                      "a number from " + shown(least) + " to " + shown(most) + " is expected");
  }
  return number;
}

Result<uint64_t> whole_value(const Json& value, const std::string& place, uint64_t least,
                             uint64_t most) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() < least ||
      value.get<uint64_t>() > most) {
    return invalid_at(place, "a whole number from " + std::to_string(least) + " to " +
                                 std::to_string(most) + " is expected");
  }
  return value.get<uint64_t>();
}

}  // namespace lambent
