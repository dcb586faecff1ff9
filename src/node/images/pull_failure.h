// What skopeo or umoci said, as the error of a deployment. Pure.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"

namespace lambent::images {

// NOT_FOUND: its registry has no such image. INVALID_ARGUMENT: there is none on this machine, it is
// not for this machine, or its layers are no good.
// FAILED_PRECONDITION: its files are not readable. PERMISSION_DENIED: its registry wants
// credentials. UNAVAILABLE: the registry did not answer. STORAGE_FULL.
Error pull_failure(const std::string& reference, std::string_view output);

// Of umoci: INVALID_ARGUMENT, STORAGE_FULL.
Error unpack_failure(const std::string& reference, std::string_view output);

}  // namespace lambent::images
