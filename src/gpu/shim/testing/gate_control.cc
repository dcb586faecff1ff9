// A handle on the gate of a preloaded shim, in a build of it that only tests use.
#include "gpu/shim/gate.h"

#define EXPORT extern "C" [[gnu::visibility("default")]]

EXPORT void lambent_shim_testing_shut_gate() { lambent::shim::shut_gate(); }
EXPORT void lambent_shim_testing_open_gate() { lambent::shim::open_gate(); }
EXPORT int lambent_shim_testing_nobody_inside() {
  return lambent::shim::wait_until_nobody_inside(0) ? 1 : 0;
}
EXPORT unsigned long long lambent_shim_testing_gated_ns() { return lambent::shim::gated_ns(); }
