// A package told by what differs from another one, which its reader has. The pieces that are
// compared are a zip's entries: the same packer gives the same bytes for each file that is the
// same. Free functions; on threads that may take their time, for they digest whole packages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "core/domain/code_parts.h"
#include "core/domain/limits.h"

namespace lambent::archive {

// Each entry with its header is one, and the directory behind them the last; what stands before the
// first entry belongs to that. INVALID_ARGUMENT as read_zip_directory().
Result<std::vector<CodePart>> code_parts_of(std::string_view zip);

// How to make `zip` out of a package of these parts. INVALID_ARGUMENT as above.
Result<std::string> make_code_delta(std::string_view zip, const std::vector<CodePart>& base);

// What make_code_delta() told, made out of the package `base`. It comes from a stranger:
// INVALID_ARGUMENT for what is cut off, says other than what it has, or goes beyond `base`;
// OUT_OF_RANGE: it makes more than `most`. Whether the result is what it should be, its digest
// says.
Result<std::string> apply_code_delta(std::string_view base, std::string_view delta,
                                     Bytes most = limits::kZippedCode);

}  // namespace lambent::archive
