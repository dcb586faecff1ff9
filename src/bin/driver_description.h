// What CUDA's driver says of its devices, for lambent-device (gpu/monitor/driver_facts.h). A
// process of its own: a driver that hangs is ended with it.
#pragma once

namespace lambent {

// Prints a line for each device; the exit status.
int describe_driver();

}  // namespace lambent
