// lambent invocations and cancel: those that wait and run, the last that ended, and ending one.
#pragma once

#include <cstdint>
#include <string>

#include "edge/cli/console.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

struct InvocationsOptions {
  std::string function;  // empty: of all
  uint64_t limit = 20;   // of those that ended
  bool slowest = false;  // of all that are remembered the slowest, in the place of the last
};

int run_invocations(Transport& transport, Console& console, const InvocationsOptions& options);
int run_cancel(Transport& transport, Console& console, const std::string& id);

}  // namespace lambent::cli
