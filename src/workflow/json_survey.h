// A look over JSON before it is built: what a library would take in silence, or take very long
// over, is refused with its place. A pure function; used for files that people write.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.h"

namespace lambent::workflow {

// INVALID_ARGUMENT, naming the place: it is no JSON, is nested deeper than `most_depth`, or an
// object has a key twice or more than kMostKeys of them.
constexpr size_t kMostKeys = 256;
Result<void> survey_json(std::string_view text, size_t most_depth);

}  // namespace lambent::workflow
