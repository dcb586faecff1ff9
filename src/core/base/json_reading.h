// The JSON documents that people write, read strictly: values of the right kind and range, or an
// error that names their place. Pure functions; used by the modules that have such a document, on
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "core/base/document_place.h"
#include "core/base/json_survey.h"
#include "core/base/result.h"
#include "core/base/units.h"

namespace lambent {

// Keys keep their order, so that errors name the first that is wrong.
using Json = nlohmann::ordered_json;

// The whole text: at most `most` bytes, and nothing that survey_json() refuses.
Result<Json> parse_document(std::string_view text, Bytes most, const JsonSurvey& survey);

// Refuses what is no object, and the first key that is not known.
Result<void> check_keys(const Json& object, const std::string& place,
                        std::initializer_list<std::string_view> known);

// The object's value, or an error that it is missing.
Result<const Json*> required_member(const Json& object, const std::string& place, const char* key);
// A list of one to `most`; `here` is the list's own place.
Result<const Json*> required_list(const Json& object, const std::string& place, const char* key,
                                  const std::string& here, size_t most);
// True or false; false if it is missing.
Result<bool> flag_member(const Json& object, const std::string& place, const char* key);

// 1 to `most_length` letters, digits, '-' and '_'.
Result<std::string> name_value(const Json& value, const std::string& place, size_t most_length);
// Of 1 to `most_length` bytes, without control characters.
bool is_text(std::string_view text, size_t most_length);
// A finite number from `least` to `most`.
Result<double> number_value(const Json& value, const std::string& place, double least, double most);
Result<uint64_t> whole_value(const Json& value, const std::string& place, uint64_t least,
                             uint64_t most);

}  // namespace lambent
