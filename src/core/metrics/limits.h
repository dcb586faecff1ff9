// The limit of series by function.
#pragma once

#include <cstddef>

namespace lambent::limits {

constexpr size_t kFunctionsWithMetrics = 5'000;  // series of their own, of those invoked last

}  // namespace lambent::limits
