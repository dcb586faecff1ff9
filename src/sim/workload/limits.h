// The limits of traces by name.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/units.h"

namespace lambent::limits {

constexpr Bytes kTraceLine = Bytes::mib(1);
constexpr size_t kTraceFunctions = 100'000;
constexpr size_t kTraceColumns = kTraceFunctions + 2;  // a function each, besides day and time
constexpr size_t kTraceMinutes = 20'160;               // two weeks
constexpr size_t kTraceArrivals = 20'000'000;          // of traces that have to be held in memory
constexpr uint64_t kGeneratedArrivals = 10'000'000'000;
constexpr uint64_t kTraceCountPerMinute = 10'000'000;

}  // namespace lambent::limits
