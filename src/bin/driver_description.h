// What CUDA's driver says of its devices, for lambent-device (gpu/monitor/driver_facts.h). A
// process of its own: a driver that hangs is ended with it.
#pragma once

namespace lambent {

// Prints a line for each device; the exit status.
int describe_driver();
// Prints the version of CUDA that the driver was made for, such as 12.4, which it says without a
// device as well; the exit status.
int print_cuda_version();

}  // namespace lambent
