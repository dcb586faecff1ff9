// JSON from strangers, parsed without exceptions and only so deep. Free functions; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/time.h"

namespace lambent::frontend {

// INVALID_ARGUMENT unless `text` is one JSON value, nested at most limits::kJsonDepth deep.
Result<nlohmann::json> parse_json(std::string_view text);
// A JSON text with the long string under one key taken out, since a package of 50 MiB in base64 is
// no work for a JSON parser.
struct CutJson {
  std::string text;      // kCutMark stands where the string was
  std::string_view cut;  // what was taken out, within the original; empty: nothing was
};
inline constexpr std::string_view kCutMark = "(cut)";
// Takes out the first string under `key` that has more than 8 KiB and no escapes. A valid text
// stays valid, and nothing that may be this long lies under another key of that name.
CutJson cut_long_string(std::string_view text, std::string_view key);

// As a number of JSON. Divided, which rounds right: 300 ms are 0.3, not 0.30000000000000004.
constexpr double seconds_of(Duration duration) {
  return static_cast<double>(duration.count()) / 1e9;
}

}  // namespace lambent::frontend
