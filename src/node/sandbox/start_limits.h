// Limits of sandboxes that start, beside sandboxes that work.
#pragma once

#include "core/base/time.h"

namespace lambent::limits {

// Until its program is ready, and no longer, a sandbox leaves the processors to those that work.
constexpr Duration kSandboxGivesWay = seconds(2);
// The same of a zygote while it loads.
constexpr Duration kZygoteGivesWay = seconds(30);

}  // namespace lambent::limits
