// What a kernel compiled for the host answers when a program asks what it is like. Pure; any
// thread.
#pragma once

#include "emulator/emulated_node/machine.h"
#include "gpu/cuda_abi/driver_types.h"
#include "gpu/cuda_abi/emulated_kernel.h"

namespace lambent::emulated_cuda {

CUresult kernel_attribute(const emulated_node::DeviceSpec& spec, const emulated_kernel& kernel,
                          int max_dynamic_shared_bytes, CUfunction_attribute attribute, int* value);

// Whether an attribute may be set to a value; of those that may, only the dynamic shared memory
// changes anything here.
CUresult check_settable(const emulated_node::DeviceSpec& spec, const emulated_kernel& kernel,
                        CUfunction_attribute attribute, int value);

// Where parameter `index` lies in the packed parameters; INVALID_VALUE beyond the last.
CUresult parameter_place(const emulated_kernel& kernel, size_t index, size_t* offset, size_t* size);

}  // namespace lambent::emulated_cuda
