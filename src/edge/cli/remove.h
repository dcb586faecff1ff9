// lambent rm: removes functions.
#pragma once

#include <string>
#include <vector>

#include "edge/cli/console.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

// Goes on after a failure; the exit code is the first one's.
int run_rm(Transport& transport, Console& console, const std::vector<std::string>& names);

}  // namespace lambent::cli
