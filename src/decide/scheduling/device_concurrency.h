// DeviceConcurrency: D driven by utilisation: a device takes one more invocation while it has
// headroom. A value; one per device in Fleet, told of NVML's readings and of dispatches.
#pragma once

#include <algorithm>

#include "core/base/state_archive.h"

namespace lambent::scheduling {

struct UtilisationOptions {
  double threshold = 0.9;  // utilisation is held under this
  unsigned most = 4;       // D_max, whatever the utilisation
};

// Between two readings (every 200 ms) each dispatch is taken to add 1/D_max of utilisation, or a
// burst would find the device idle many times over. One invocation may always run.
class DeviceConcurrency {
 public:
  explicit DeviceConcurrency(UtilisationOptions options) : options_(options) {}

  void reading(double utilisation) { tracked_ = utilisation; }
  void dispatched() { tracked_ += 1.0 / std::max(1U, options_.most); }
  void archive(StateArchive& archive) { archive.field(tracked_); }

  // How many may run now that so many do.
  unsigned tokens(unsigned running) const {
    const unsigned wanted = tracked_ < options_.threshold ? running + 1 : running;
    return std::clamp(wanted, 1U, std::max(1U, options_.most));
  }

 private:
  UtilisationOptions options_;
  double tracked_ = 0;
};

}  // namespace lambent::scheduling
