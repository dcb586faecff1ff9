// Paths and common refusals of our own API, for its decoders. Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/http/message.h"

namespace lambent::frontend {

// The decoded segments of /v1/...; nothing if one is malformed or there are fewer than two.
std::optional<std::vector<std::string>> path_parts(std::string_view path);

// Whether a query names it, with a value or without.
bool has_query(std::string_view query, std::string_view name);

// The number under `limit` in a query; `most` if there is none or it is larger. INVALID_ARGUMENT if
// it is no number above 0.
Result<size_t> page_limit(std::string_view query, size_t most);

// "0" or "1"; false if the query does not name it. INVALID_ARGUMENT.
Result<bool> flag_in(std::string_view query, std::string_view name);

http::Response no_such_path(std::string_view path);
http::Response method_not_allowed(std::string_view method, const char* allowed);

}  // namespace lambent::frontend
