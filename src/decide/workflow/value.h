// Value: the JSON that travels between the components of a workflow, with the questions that a
// workflow asks of it. Pure functions; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/units.h"

namespace lambent::workflow {

using Value = nlohmann::json;

// An empty text is null. INVALID_ARGUMENT: it is no JSON, or nested deeper than
// limits::kValueDepth.
Result<Value> parse_value(std::string_view text);
std::string to_text(const Value& value);

// False are null, false, 0, and empty texts, lists and objects.
bool is_true(const Value& value);

// About as many bytes as its text has, and never less than half of them.
Bytes weight_of(const Value& value);

// About as many bytes as it takes in memory: more than its text where it is many small values.
Bytes memory_of(const Value& value);

// "an object", "a list", "text", "a number", "true or false", "null".
std::string_view kind_of(const Value& value);

}  // namespace lambent::workflow
