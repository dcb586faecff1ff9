// The result of `./dev gpu` (result.json: what a GPU's first hour told) as a table in Markdown, for
// docs and for people. Pure; used by `lambent report`.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace lambent::cli {

// Nothing if the text is no such result: then it is a run's. INVALID_ARGUMENT names the file and
// what in it cannot be read.
Result<std::optional<std::string>> gpu_table(std::string_view text, const std::string& file);

}  // namespace lambent::cli
