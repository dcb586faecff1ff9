// lambent logs: what a function printed, once or as it comes, on all nodes of a cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/time.h"
#include "edge/cli/console.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

struct LogsOptions {
  std::string name;
  bool follow = false;
  std::optional<uint64_t> tail;  // so many of the last lines that are there; else all
  bool timestamps = false;
  std::optional<Duration> since;  // wall time: only what was printed then or later
  std::string invocation;         // only the lines from its START to its END; empty: all
};

// The wall time of "10m" (before `now`) or of "2026-11-29T17:36:32Z".
Result<Duration> since_in(const std::string& text, Duration now);

int run_logs(Transport& transport, Console& console, const LogsOptions& options);

}  // namespace lambent::cli
