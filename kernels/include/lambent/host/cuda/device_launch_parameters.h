// What kernels need of device_launch_parameters.h on the host: the words that every kernel has.
#pragma once

#include <lambent/kernel.h>
