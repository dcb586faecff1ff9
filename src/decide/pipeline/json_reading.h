// What pipeline.json and profile.json are read with: values of the right kind and range, or an
// error that names their place. Used by the room's own codecs only.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::pipeline {

using Json = nlohmann::ordered_json;

Error invalid(const std::string& place, const std::string& what);
std::string at(const std::string& place, size_t index);

// The whole text: not too large, no key twice, not too deep; an object whose key `format` says 1.
Result<Json> parse_document(std::string_view text, std::string_view subject, const char* format);

Result<void> check_keys(const Json& object, const std::string& place,
                        std::initializer_list<std::string_view> known);
// The value, or an error that it is missing.
Result<const Json*> member(const Json& object, const std::string& place, const char* key);
// A list of one to `most`; `here` is the list's own place.
Result<const Json*> list_member(const Json& object, const std::string& place, const char* key,
                                const std::string& here, size_t most);
// 1 to kNameLength letters, digits, '-' and '_'.
Result<std::string> name_value(const Json& value, const std::string& place);
// Valid UTF-8 without control characters, not empty.
Result<std::string> text_value(const Json& value, const std::string& place, size_t most_length);
bool is_text(std::string_view text, size_t most_length);
// A finite number from `least` to `most`.
Result<double> number_value(const Json& value, const std::string& place, double least, double most);
Result<uint64_t> whole_value(const Json& value, const std::string& place, uint64_t least,
                             uint64_t most);
// Of MB and of ms, up to the room's limits.
Result<Bytes> megabytes_value(const Json& value, const std::string& place);
Result<Duration> milliseconds_value(const Json& value, const std::string& place);

// Written so that they are read back as the same: whole numbers as such.
Json megabytes_json(Bytes bytes);
Json milliseconds_json(Duration duration);

}  // namespace lambent::pipeline
