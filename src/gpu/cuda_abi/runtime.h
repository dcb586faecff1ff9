/* Prototypes of the runtime functions in runtime_table.inc. For the runtime stand-in, which defines
 * them: the compiler holds its definitions against them. */
#ifndef LAMBENT_CUDA_ABI_RUNTIME_H
#define LAMBENT_CUDA_ABI_RUNTIME_H

#include "gpu/cuda_abi/runtime_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RUNTIME_FUNCTION(symbol, parameters) cudaError_t symbol parameters;
#include "gpu/cuda_abi/runtime_table.inc"
#undef RUNTIME_FUNCTION

#ifdef __cplusplus
}
#endif
#endif
