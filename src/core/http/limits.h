// The limits of connections, requests and answers by name.
#pragma once

#include <cstddef>

#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::limits {

constexpr size_t kHttpConnections = 4'096;
constexpr Bytes kHttpHeaders = Bytes::kib(64);
constexpr Duration kHttpHeaderTimeout = seconds(10);
constexpr Duration kHttpBodyTimeout = seconds(60);
// What a second of a body that is kept brings at least, beyond that time.
constexpr Bytes kHttpBodyRate = Bytes::kib(64);
constexpr Duration kHttpIdleTimeout = seconds(75);
constexpr Bytes kRelayWindow = Bytes::kib(64);  // of one direction that the other side is behind
constexpr size_t kTraceIdLength = 512;

}  // namespace lambent::limits
