// lambent devices, drain and undrain: how a worker's GPUs are, and which get no more work.
#pragma once

#include <string>

#include "edge/cli/console.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

int run_devices(Transport& transport, Console& console);

struct DrainOptions {
  std::string gpu;     // "0", "0:2", or how its UUID begins
  bool drain = true;   // false: it gets work again
  std::string reason;  // of a drain; empty: none is said
};
// Then as run_devices.
int run_drain(Transport& transport, Console& console, const DrainOptions& options);

}  // namespace lambent::cli
