// The limits of pipeline functions by name. Used by the module, by deployment and by tests.
#pragma once

#include <cstddef>

#include "core/base/time.h"
#include "core/base/units.h"

namespace lambent::pipeline::limits {

// pipeline.json and profile.json.
constexpr Bytes kJson = Bytes::mib(1);
constexpr size_t kJsonDepth = 8;
constexpr size_t kNameLength = 64;
constexpr size_t kHandlerLength = 256;
constexpr size_t kShapeNameLength = 128;
constexpr size_t kInputs = 64;      // of the function
constexpr size_t kComponents = 64;  // of one function
constexpr size_t kSources = 64;     // inputs of one component
constexpr size_t kShapes = 64;      // of one profile

// Cuts (enumeration.h).
constexpr size_t kStageProcessesOfStage = 8;  // more branches share stage processes
constexpr size_t kStepsOfFork = 4;  // stages that all branches of a fork go through together

// Channels of one process of an instance whose stage processes have replicas; each is shown to its
// sandbox.
constexpr size_t kChannelsOfProcess = 48;

// Values.
constexpr unsigned kBatch = 1'024;
constexpr double kSloScale = 1'000;
constexpr Duration kTime = std::chrono::hours(24);  // of a component, a start, an SLO
constexpr Bytes kMemory = Bytes::gib(65'536);
constexpr unsigned kMultiprocessors = 65'536;

}  // namespace lambent::pipeline::limits
