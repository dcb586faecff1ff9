// What one function may ask for, as defaults of its fields and ranges of their values. In every
// module; the other limits of functions are in limits.h.
#pragma once

#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::limits {

constexpr Duration kLeastTimeout = seconds(1);
constexpr Duration kMostTimeout = seconds(5400);
constexpr Duration kDefaultTimeout = seconds(30);
constexpr Bytes kLeastMemory = Bytes::mib(64);
constexpr Bytes kMostMemory = Bytes::mib(32768);
constexpr Bytes kDefaultMemory = Bytes::mib(512);

// Sandboxes of one function that may be at work at once. As many as Lambda gives an account by
// default: how many there are, the scheduler decides.
constexpr unsigned kDefaultConcurrency = 1000;
constexpr unsigned kMostConcurrency = 10'000;
// Requests that are in one sandbox of an HTTP function at once.
constexpr unsigned kMostSandboxConcurrency = 1'000;
constexpr double kLeastWeight = 0.01;
constexpr double kMostWeight = 1000;
constexpr double kMostGpuSpeedup = 1e6;  // of a CPU variant

// Sandboxes of a function that are kept ready, and how long others may rest.
constexpr unsigned kMostInstances = 1'000;
constexpr double kMostKeepAliveSeconds = 86'400;
constexpr double kMostQueueTimeSeconds = 86'400;
constexpr unsigned kMostSloMilliseconds = 86'400'000;

// Processors that a sandbox may use; below the least one hardly any program starts in time.
constexpr double kLeastCpus = 0.05;
constexpr double kMostCpus = 1024;

// Of a sandbox, unless the function or the operator says otherwise.
constexpr Bytes kSandboxScratch = Bytes::mib(512);
constexpr Bytes kSandboxSharedMemory = Bytes::mib(64);
constexpr Bytes kLeastScratch = Bytes::mib(1);  // and shared memory

}  // namespace lambent::limits
