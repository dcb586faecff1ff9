// Functions that hand the driver work on device memory, or let it take more of it: they wait at the
// gate and are forwarded as they are.
#include "driver_slots.h"
#include "shim/abi.h"
#include "shim/gate.h"

using namespace lambent::shim;

#define GATED(name, parameters, arguments, ...)      \
  SHIM_EXPORT Status name parameters {               \
    const Passage passage;                           \
    return noted(REAL(name, __VA_ARGS__) arguments); \
  }
#include "driver_gated.inc"
#undef GATED
