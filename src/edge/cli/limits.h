// The limits of what the command line sends by name.
#pragma once

#include <cstddef>

namespace lambent::limits {

constexpr size_t kReplayOutstanding = 1'024;
// What a function that serves a model has unless it says otherwise: its server reads requests side
// by side, and computes them one after the other.
constexpr unsigned kModelConcurrency = 16;

}  // namespace lambent::limits
