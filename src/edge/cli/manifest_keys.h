// Keys of lambent.toml that are read by themselves, and what is said of those that are wrong. Pure
// functions; used by the readers of its parts.
#pragma once

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace lambent::cli {

// INVALID_ARGUMENT with the file, the key's line if it is there, and the message.
Error wrong_key(const toml::table& table, std::string_view key, const std::string& file,
                const std::string& message);

// A list of texts; nothing if the key is not there.
Result<std::optional<std::vector<std::string>>> words_of(const toml::table& table,
                                                         std::string_view key,
                                                         const std::string& file);

}  // namespace lambent::cli
