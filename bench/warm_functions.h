// How many functions a device holds warm: the worker's own dispatch over one device, with functions
// that take turns until nothing changes any more. Used by working_set_bench.
#pragma once

#include "core/base/units.h"

namespace lambent::bench {

struct WarmFunctions {
  Bytes device;
  Bytes function;   // its limit and context: what a new one takes
  Bytes context;    // of that, what stays on the device in any case
  Bytes offloaded;  // of that, what is offloaded once its memory has moved
};

// Of functions whose memory is on the device together at the end, and no more would fit.
int warm_functions(const WarmFunctions& what);

}  // namespace lambent::bench
