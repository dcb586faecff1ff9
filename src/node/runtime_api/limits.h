// The limits of what handlers send by the Lambda Runtime API, by name.
#pragma once

#include "core/base/units.h"

namespace lambent::limits {

// What a handler streams as one answer, as Lambda has it; the worker keeps a window of it.
constexpr Bytes kStreamedResponse = Bytes::mib(200);
// The Runtime API may carry an X-Ray cause of up to 1 MiB in a header.
constexpr Bytes kRuntimeApiHeaders = Bytes(1024 * 1024 + 64 * 1024);

}  // namespace lambent::limits
