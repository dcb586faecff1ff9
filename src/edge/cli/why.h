// lambent why without a journal: where the time of a pipeline's request or of a workflow's run
// went, as the worker remembers it. Journals are read by a program of its own, lambent-why.
#pragma once

#include <string>

#include "edge/cli/console.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

int run_why(Transport& transport, Console& console, const std::string& invocation);

}  // namespace lambent::cli
