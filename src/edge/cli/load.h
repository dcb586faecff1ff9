// lambent load: how much a worker's functions give when clients ask as fast as they can, and how
// long answers take at a share of that.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "edge/cli/console.h"
#include "edge/cli/limits.h"
#include "edge/cli/load_run.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

struct LoadOptions {
  std::vector<std::string> functions;
  unsigned clients = 1;
  unsigned outstanding = 1;
  bool online = false;         // after the peak was measured offline
  double rate_of_peak = 0.8;   // online: a share of that
  std::optional<double> rate;  // online: requests a second, and nothing is measured before
  double seconds = 10;
  std::optional<double> warm_up_seconds;  // default: a tenth of `seconds`
  size_t most_outstanding = limits::kReplayOutstanding;
  double give_up_seconds = 60;
  std::optional<std::string> payload;       // -d
  std::optional<std::string> payload_file;  // "-" is standard input
  std::string content_type = "application/json";
  uint64_t seed = 1;
  std::optional<std::string> csv;  // a file for the distributions of latencies
};

// Exit code: 0 if any request of the last run succeeded; else that of the most frequent error.
int run_load_verb(Transport& transport, const Destination& destination, Console& console,
                  const LoadOptions& options);

}  // namespace lambent::cli
