// What pipeline.json and profile.json have in common: the number of their format, memory in MB and
// times in ms. Pure functions; used by the two codecs, on any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/base/json_reading.h"
#include "core/base/time.h"

namespace lambent::pipeline {

// An object whose key `format` is 1; `subject` is what it is called in errors.
Result<Json> parse_numbered(std::string_view text, std::string_view subject, const char* format);

// From 0 to the module's limits.
Result<Bytes> megabytes_value(const Json& value, const std::string& place);
Result<Duration> milliseconds_value(const Json& value, const std::string& place);

// Written so that they are read back as the same: whole numbers as such.
Json megabytes_json(Bytes bytes);
Json milliseconds_json(Duration duration);

}  // namespace lambent::pipeline
