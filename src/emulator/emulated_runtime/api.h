// What every file of exported functions begins with: their prototypes, their visibility and the
// shared state.
#pragma once

#pragma GCC visibility push(default)
#include "gpu/cuda_abi/runtime.h"
#pragma GCC visibility pop

#include "emulator/emulated_runtime/registry.h"
#include "emulator/emulated_runtime/runtime.h"

// An exported function of the runtime API.
#define RUNTIME_API extern "C" __attribute__((visibility("default"))) cudaError_t

// A function that is the driver's under another name: FORWARD(name, the driver's, (parameters),
// (arguments)).
#define FORWARD(name, driver_function, parameters, arguments)                 \
  RUNTIME_API name parameters {                                               \
    WITH_CONTEXT();                                                           \
    return ::lambent::emulated_runtime::record(cu.driver_function arguments); \
  }
