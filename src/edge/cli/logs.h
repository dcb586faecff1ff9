// lambent logs: what a function printed, once or as it comes, on all nodes of a cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "edge/cli/console.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

struct LogsOptions {
  std::string name;
  bool follow = false;
  std::optional<uint64_t> tail;  // so many of the last lines that are there; else all
  bool timestamps = false;
};

int run_logs(Transport& transport, Console& console, const LogsOptions& options);

}  // namespace lambent::cli
