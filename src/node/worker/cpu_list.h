// A list of processors as the kernel writes it ("0-15,64-79"), as numbers. Pure; used by
// lambent-worker when it starts.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace lambent::worker {

// In order, each once; an empty text is an empty list. INVALID_ARGUMENT for what is no such list,
// and for a processor from sandbox::kMostProcessors on.
Result<std::vector<uint32_t>> parse_cpu_list(std::string_view text);

}  // namespace lambent::worker
