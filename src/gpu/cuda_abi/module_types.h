/* Types of the driver API for modules, libraries and linking; included by driver_types.h. */
#ifndef LAMBENT_CUDA_ABI_MODULE_TYPES_H
#define LAMBENT_CUDA_ABI_MODULE_TYPES_H

typedef struct CUlinkState_st* CUlinkState;

typedef enum CUjitInputType_enum {
  CU_JIT_INPUT_CUBIN = 0,
  CU_JIT_INPUT_PTX = 1,
  CU_JIT_INPUT_FATBINARY = 2,
  CU_JIT_INPUT_OBJECT = 3,
  CU_JIT_INPUT_LIBRARY = 4,
  CU_JIT_INPUT_NVVM = 5,
  CU_JIT_NUM_INPUT_TYPES = 6
} CUjitInputType;

#endif
