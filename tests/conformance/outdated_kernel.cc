// A host module whose one kernel speaks of an ABI that the driver does not know.
#include "cuda_abi/emulated_kernel.h"

extern "C" __attribute__((visibility("default")))
const emulated_kernel emulated_kernel_outdated{EMULATED_KERNEL_ABI_VERSION + 1,
                                               0,
                                               nullptr,
                                               nullptr,
                                               0,
                                               1024,
                                               16,
                                               [](const emulated_launch*, emulated_dim3, void**) {},
                                               nullptr};
