// The limits of requests that are passed on to HTTP functions, by name.
#pragma once

#include <cstddef>

#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::limits {

constexpr Bytes kRelayedHead = Bytes::kib(64);  // of an answer: its status line and headers
constexpr size_t kRelayedRequests = 4'096;      // that exist at one time
constexpr Duration kRelayReadyPeriod = milliseconds(10);  // between two looks whether it listens

}  // namespace lambent::limits
