// What every file of API functions begins with: their prototypes, exported. A function that is
// defined must be in calls.txt, which makes the refusals of all others.
#pragma once

#pragma GCC visibility push(default)
#include "gpu/cuda_abi/driver.h"
#pragma GCC visibility pop

#include "gpu/forward_client/connection.h"
#include "gpu/forward_client/state.h"

// Exports a function that driver.h does not declare: another name of one that it does.
#define VARIANT extern "C" __attribute__((visibility("default"))) CUresult
