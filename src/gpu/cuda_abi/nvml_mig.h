/* The part of NVML about MIG instances, with the binary layout of libnvidia-ml.so.1. Part of
 * nvml.h, which includes it. */
#ifndef LAMBENT_CUDA_ABI_NVML_H
#include "gpu/cuda_abi/nvml.h" /* which includes this */
#elif !defined(LAMBENT_CUDA_ABI_NVML_MIG_H)
#define LAMBENT_CUDA_ABI_NVML_MIG_H

#define NVML_DEVICE_MIG_DISABLE 0
#define NVML_DEVICE_MIG_ENABLE 1

/* Kinds of GPU instance; the id of a profile is another number. */
#define NVML_GPU_INSTANCE_PROFILE_1_SLICE 0
#define NVML_GPU_INSTANCE_PROFILE_2_SLICE 1
#define NVML_GPU_INSTANCE_PROFILE_3_SLICE 2
#define NVML_GPU_INSTANCE_PROFILE_4_SLICE 3
#define NVML_GPU_INSTANCE_PROFILE_7_SLICE 4
#define NVML_GPU_INSTANCE_PROFILE_8_SLICE 5
#define NVML_GPU_INSTANCE_PROFILE_6_SLICE 6
#define NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1 7
#define NVML_GPU_INSTANCE_PROFILE_2_SLICE_REV1 8
#define NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2 9
#define NVML_GPU_INSTANCE_PROFILE_COUNT 10

#define NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE 0
#define NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE 1
#define NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE 2
#define NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE 3
#define NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE 4
#define NVML_COMPUTE_INSTANCE_PROFILE_COUNT 8
#define NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED 0

typedef struct nvmlGpuInstance_st* nvmlGpuInstance_t;
typedef struct nvmlComputeInstance_st* nvmlComputeInstance_t;

typedef struct nvmlGpuInstancePlacement_st {
  unsigned int start, size; /* in slices of memory */
} nvmlGpuInstancePlacement_t;

typedef struct nvmlGpuInstanceProfileInfo_st {
  unsigned int id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
  unsigned int copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
  unsigned long long memorySizeMB;
} nvmlGpuInstanceProfileInfo_t;

typedef struct nvmlGpuInstanceProfileInfo_v2_st {
  unsigned int version; /* nvmlGpuInstanceProfileInfo_v2, set by the caller */
  unsigned int id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
  unsigned int copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
  unsigned long long memorySizeMB;
  char name[96];
} nvmlGpuInstanceProfileInfo_v2_t;

#define nvmlGpuInstanceProfileInfo_v2 \
  ((unsigned int)(sizeof(nvmlGpuInstanceProfileInfo_v2_t) | (2u << 24)))

typedef struct nvmlGpuInstanceInfo_st {
  nvmlDevice_t device;
  unsigned int id, profileId;
  nvmlGpuInstancePlacement_t placement;
} nvmlGpuInstanceInfo_t;

typedef struct nvmlComputeInstancePlacement_st {
  unsigned int start, size; /* in slices of compute, of the GPU instance */
} nvmlComputeInstancePlacement_t;

typedef struct nvmlComputeInstanceProfileInfo_st {
  unsigned int id, sliceCount, instanceCount, multiprocessorCount;
  unsigned int sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount;
  unsigned int sharedOfaCount;
} nvmlComputeInstanceProfileInfo_t;

typedef struct nvmlComputeInstanceInfo_st {
  nvmlDevice_t device;
  nvmlGpuInstance_t gpuInstance;
  unsigned int id, profileId;
  nvmlComputeInstancePlacement_t placement;
} nvmlComputeInstanceInfo_t;

typedef struct nvmlDeviceAttributes_st {
  unsigned int multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount;
  unsigned int sharedJpegCount, sharedOfaCount, gpuInstanceSliceCount, computeInstanceSliceCount;
  unsigned long long memorySizeMB;
} nvmlDeviceAttributes_t;

#endif
