// lambent logs: what a function printed, once or as it comes, on all nodes of a cluster.
#pragma once

#include <string>

#include "edge/cli/console.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

struct LogsOptions {
  std::string name;
  bool follow = false;
  bool timestamps = false;
};

int run_logs(Transport& transport, Console& console, const LogsOptions& options);

}  // namespace lambent::cli
