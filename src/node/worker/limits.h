// The limits of what a worker keeps in memory, by name.
#pragma once

#include <cstddef>

#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::limits {

// Logs of functions, kept for `lambent logs`.
constexpr Bytes kLogPerFunction = Bytes::mib(4);

// Graphs that come with requests and are kept.
constexpr Bytes kKeptGraphPackage = Bytes::mib(16);
constexpr size_t kKeptGraphsPerTenant = 64;
constexpr size_t kKeptGraphs = 512;
constexpr Duration kKeptGraphRest = std::chrono::minutes(30);  // without a request

// Calls of one kernel function by runs of workflows that wait to run together, and functions whose
// calls do. Those beyond it are made one by one.
constexpr size_t kBatchedCallsWaiting = 10'000;
constexpr Bytes kBatchedPayloadsWaiting = Bytes::mib(64);
constexpr Bytes kBatchedPayloads = Bytes::mib(256);  // of all functions together
constexpr size_t kBatchedFunctions = 10'000;

// What one invocation waits for: how many may wait so, and for how long.
constexpr size_t kInvocationsWaiting = 10'000;
constexpr Duration kNeedsTimeout = std::chrono::hours(1);

// How long the outcome of an invocation answers repeats of the same request.
constexpr Duration kIdempotencyWindow = std::chrono::minutes(15);
constexpr size_t kIdempotencyEntries = 10'000;
// Of those that were refused, how many are known again when they come as they were told: by an id,
// and as many by their connection.
constexpr size_t kPromisedTurns = 10'000;

}  // namespace lambent::limits
