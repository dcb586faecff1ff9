// The limits of volumes that only their store has to know, by name.
#pragma once

#include <cstddef>

#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::limits {

constexpr size_t kVolumesPerTenant = 256;
constexpr size_t kVolumeTransfers = 64;     // at once, of a worker
constexpr size_t kUnfinishedUploads = 256;  // of a volume
constexpr Duration kUnfinishedUploadAge = std::chrono::hours(24);
// Of the disk, beside uploads: twice what the worker calls a full disk (StorageWatch::kLeastSpace).
constexpr Bytes kVolumeLeftFree = Bytes::mib(16);
constexpr Bytes kVolumeAhead = Bytes::mib(4);  // of a transfer, that waits for the disk

}  // namespace lambent::limits
