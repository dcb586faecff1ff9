// JSON from strangers: parsed without exceptions and only so deep; and text that is safe to put
// into JSON. Free functions; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lambent::frontend {

// INVALID_ARGUMENT unless `text` is one JSON value, nested at most limits::kJsonDepth deep.
Result<nlohmann::json> parse_json(std::string_view text);
// As text; bytes that are not UTF-8 are replaced.
std::string to_text(const nlohmann::json& value);

}  // namespace lambent::frontend
