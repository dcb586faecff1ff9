// Limits of what follows asynchronous invocations, as AWS Lambda has them. Apart from limits.h,
// which half of all sources include.
#pragma once

#include <cstddef>

namespace lambent::limits {

constexpr unsigned kMostAsyncRetries = 2;
constexpr double kLeastEventAgeSeconds = 60;
constexpr double kMostEventAgeSeconds = 21'600;
constexpr unsigned kDestinationChain = 16;  // destinations that lead from one to the next
// Invocations that are read from the catalog at once, when they are due.
constexpr size_t kDueAtOnce = 128;

}  // namespace lambent::limits
