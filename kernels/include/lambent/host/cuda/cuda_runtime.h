// What kernels need of cuda_runtime.h on the host: the words that every kernel has.
#pragma once

#include <lambent/kernel.h>
