// The limits of kernel functions by name: their graphs, and what the largest devices take.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/units.h"

namespace lambent::limits {

constexpr Bytes kGraphJson = Bytes::mib(4);
constexpr size_t kGraphBuffers = 4'096;
constexpr size_t kGraphSteps = 4'096;  // counting those in repeats
constexpr size_t kGraphDepth = 4;      // of repeats in repeats
constexpr size_t kGraphArguments = 256;
constexpr uint64_t kGraphRounds = 1'000'000'000;
constexpr size_t kGraphNameLength = 256;
constexpr Bytes kGraphMemory = Bytes::gib(1024);
constexpr uint32_t kBlockThreads = 1'024;
constexpr Bytes kBlockSharedMemory = Bytes::kib(227);

}  // namespace lambent::limits
