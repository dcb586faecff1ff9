/* Prototypes of the driver functions in driver_table.inc, under the names that the driver exports
 * (cuMemAlloc_v2, never a renaming macro). Callers load the driver at run time through that table;
 * only the emulated driver, which defines them, needs these. */
#ifndef LAMBENT_CUDA_ABI_DRIVER_H
#define LAMBENT_CUDA_ABI_DRIVER_H

#include "gpu/cuda_abi/driver_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DRIVER_FUNCTION(name, symbol, parameters) CUresult symbol parameters;
#include "gpu/cuda_abi/driver_table.inc"
#undef DRIVER_FUNCTION

#ifdef __cplusplus
}
#endif
#endif
