// Waits until no sandbox of a function is left; for what measures a worker and must not be held up
// by what is going. Used by calibrate and replay.
#pragma once

#include <string>

#include "core/base/result.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

// The function's name in full. A node of a cluster that does not answer may have one.
// DEADLINE_EXCEEDED after two minutes.
Result<void> wait_until_gone(Transport& transport, const std::string& function);

}  // namespace lambent::cli
