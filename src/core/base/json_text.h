// The text of JSON on one line, as it is sent and stored. Pure functions; used by all that write
// JSON for a program, on any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lambent {

// Bytes that are no UTF-8 become U+FFFD: a text of others never ends what writes it.
std::string json_text(const nlohmann::json& value);
std::string json_text(const nlohmann::ordered_json& value);

}  // namespace lambent
