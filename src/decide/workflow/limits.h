// The limits of workflows by name. Used by the module, by the worker that runs them and by their
// tests.
#pragma once

#include <cstddef>

#include "core/base/units.h"

namespace lambent::workflow::limits {

// Graphs.
constexpr Bytes kGraphJson = Bytes::mib(1);
constexpr size_t kGraphDepth = 32;  // of its JSON
constexpr size_t kComponents = 256;
constexpr size_t kNameLength = 64;
constexpr size_t kReferenceLength = 1'024;
constexpr size_t kReferenceSteps = 32;

// Values: what goes into a component, and what comes out of it.
constexpr size_t kValueDepth = 128;      // lists and objects in each other
constexpr Bytes kValue = Bytes::mib(6);  // one that was put together for a call or as the output
// As they lie in memory (memory_of), which may be much more than their text.
constexpr Bytes kValues = Bytes::mib(64);      // all that one run keeps
constexpr Bytes kAllValues = Bytes::mib(256);  // all runs of a worker together

// Runs.
constexpr size_t kFanOut = 1'000;       // calls of one component
constexpr size_t kCallsInFlight = 64;   // of one run
constexpr size_t kCallsInAll = 10'000;  // of one run, with those of workflows that it calls
constexpr unsigned kAttempts = 3;       // of one call whose place failed
constexpr size_t kDepth = 8;            // workflows that call workflows
constexpr size_t kLiveRuns = 1'000;     // of a worker, without those that others called

}  // namespace lambent::workflow::limits
