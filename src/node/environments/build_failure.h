// build_failure(): the error that a deployment gets when uv could not install what it names. Pure
// functions; used by lambent-environment.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace lambent::environments {

// At most so much of what uv said is told.
inline constexpr size_t kMostReason = 1500;  // bytes

// Without "user:password@" of URLs, control characters and colours.
std::string without_credentials(std::string_view text);

// From all that uv wrote. INVALID_ARGUMENT: the requirements cannot be met. UNAVAILABLE: the index
// could not be reached. STORAGE_FULL.
Error build_failure(std::string_view output);

// The failure of a build that sees the worker's folder of wheels `outside` as `inside`. It names
// the former; FAILED_PRECONDITION with the remedy where it could not be read.
Error with_wheels_named(Error failure, std::string_view inside, const std::string& outside);

// Of a build that asked for places which are not the index's. FAILED_PRECONDITION.
Error refused_places(const std::vector<std::string>& places);

}  // namespace lambent::environments
