// The event that a verb sends: a text, @FILE or - for standard input. Used by invoke and load.
#pragma once

#include <optional>
#include <string>

#include "core/base/result.h"

namespace lambent::cli {

// `data` is as -d has it: @FILE is what the file holds, - what stdin has. `file` is as --file has
// it: a path, or -. "{}" without either. RESOURCE_EXHAUSTED for a file of more than
// twice what a request may have; below that the worker's own limit is what is heard of.
Result<std::string> event_text(const std::optional<std::string>& data,
                               const std::optional<std::string>& file);

}  // namespace lambent::cli
