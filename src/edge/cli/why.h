// lambent why without a journal: where the time of a pipeline's request or of a workflow's run
// went, as the worker remembers it. Journals are read by a program of its own, lambent-why.
#pragma once

#include <string>

#include "edge/cli/console.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

// `which` is an invocation's id, or a function: of its last invocations the slowest.
int run_why(Transport& transport, Console& console, const std::string& which);

}  // namespace lambent::cli
