// Limits of sandboxes that start: beside sandboxes that work, and of what they start with.
#pragma once

#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::limits {

// Until its program is ready, and no longer, a sandbox leaves the processors to those that work.
constexpr Duration kSandboxGivesWay = seconds(2);
// The same of a zygote while it loads.
constexpr Duration kZygoteGivesWay = seconds(30);
// Of the files with secrets that one sandbox is shown, all together and with their names.
constexpr Bytes kSandboxSecretFiles = Bytes::mib(16);

}  // namespace lambent::limits
