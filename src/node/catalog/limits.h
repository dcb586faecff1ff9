// The limits of what waits to be written to the catalog, by name.
#pragma once

#include <cstddef>

#include "core/base/units.h"

namespace lambent::limits {

constexpr size_t kCatalogQueue = 16'384;
constexpr Bytes kCatalogQueueBytes = Bytes::mib(256);
constexpr size_t kCatalogBatch = 512;
// What an asynchronous invocation takes beside payload, result and the end of its log.
constexpr Bytes kAsyncOverhead(512);

}  // namespace lambent::limits
