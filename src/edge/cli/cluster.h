// lambent cluster ls, drain and undrain: the nodes that answer for each other, and which get no
// more work.
#pragma once

#include <functional>
#include <string>

#include "core/base/time.h"
#include "edge/cli/console.h"
#include "edge/cli/transport.h"

namespace lambent::cli {

int run_cluster_ls(Transport& transport, Console& console);

struct ClusterDrainOptions {
  std::string node;
  bool drain = true;  // false: it gets work again
  // How long to wait until it has none; zero: not at all. Then exit code DEADLINE_EXCEEDED.
  Duration wait{};
  std::function<void(Duration)> sleep;
};
// Then as run_cluster_ls.
int run_cluster_drain(Transport& transport, Console& console, const ClusterDrainOptions& options);

}  // namespace lambent::cli
