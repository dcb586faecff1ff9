// lambent describe: one function with its settings, what it does now and what became of its calls.
#pragma once

#include <string>

#include "edge/cli/console.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

int run_describe(Transport& transport, Console& console, const std::string& function);

}  // namespace lambent::cli
