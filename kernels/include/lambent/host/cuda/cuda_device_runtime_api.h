// What kernels need of cuda_device_runtime_api.h on the host: the words that every kernel has.
#pragma once

#include <lambent/kernel.h>
