// Launches, what a kernel is like, and occupancy.
#include "emulator/emulated_runtime/api.h"

using namespace lambent::emulated_runtime;

namespace {

constexpr unsigned kMostBlockThreads = 1024;
constexpr unsigned kMostGridRows = 65535;

// What no device can launch is the runtime's to refuse, with a code of its own.
bool valid_shape(const dim3& grid, const dim3& block) {
  if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z) return false;
  if (grid.x > 0x7FFFFFFF || grid.y > kMostGridRows || grid.z > kMostGridRows) return false;
  if (block.x > kMostBlockThreads || block.y > kMostBlockThreads || block.z > 64) return false;
  return uint64_t{block.x} * block.y * block.z <= kMostBlockThreads;
}

// A launch may be given a kernel as it is; where there is none the code is the runtime's.
CUfunction as_function(CUkernel kernel) { return reinterpret_cast<CUfunction>(kernel); }

bool fits(size_t shared_bytes) { return shared_bytes <= UINT32_MAX; }

}  // namespace

RUNTIME_API cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** parameters,
                             size_t shared_bytes, cudaStream_t stream) {
  WITH_CONTEXT();
  CUkernel kernel;
  RETURN_IF_ERROR(kernel_of(cu, function, &kernel));
  if (!valid_shape(grid, block)) return record(cudaErrorInvalidConfiguration);
  if (!fits(shared_bytes)) return record(cudaErrorInvalidValue);
  return record(cu.launch_kernel(as_function(kernel), grid.x, grid.y, grid.z, block.x, block.y,
                                 block.z, static_cast<unsigned>(shared_bytes), stream, parameters,
                                 nullptr));
}

RUNTIME_API cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                        void** parameters, size_t shared_bytes,
                                        cudaStream_t stream) {
  WITH_CONTEXT();
  CUkernel kernel;
  RETURN_IF_ERROR(kernel_of(cu, function, &kernel));
  if (!valid_shape(grid, block)) return record(cudaErrorInvalidConfiguration);
  if (!fits(shared_bytes)) return record(cudaErrorInvalidValue);
  return record(cu.launch_cooperative_kernel(as_function(kernel), grid.x, grid.y, grid.z, block.x,
                                             block.y, block.z, static_cast<unsigned>(shared_bytes),
                                             stream, parameters));
}

RUNTIME_API cudaLaunchKernelExC(const cudaLaunchConfig_t* given, const void* function,
                                void** parameters) {
  WITH_CONTEXT();
  if (!given) return record(cudaErrorInvalidValue);
  CUkernel kernel;
  RETURN_IF_ERROR(kernel_of(cu, function, &kernel));
  if (!valid_shape(given->gridDim, given->blockDim)) {
    return record(cudaErrorInvalidConfiguration);
  }
  if (!fits(given->dynamicSmemBytes)) return record(cudaErrorInvalidValue);
  const CUlaunchConfig config{given->gridDim.x,
                              given->gridDim.y,
                              given->gridDim.z,
                              given->blockDim.x,
                              given->blockDim.y,
                              given->blockDim.z,
                              static_cast<unsigned>(given->dynamicSmemBytes),
                              given->stream,
                              given->attrs,
                              given->numAttrs};
  return record(cu.launch_kernel_ex(&config, as_function(kernel), parameters, nullptr));
}

RUNTIME_API cudaFuncGetAttributes(cudaFuncAttributes* out, const void* function) {
  WITH_CONTEXT();
  if (!out) return record(cudaErrorInvalidValue);
  CUfunction found;
  RETURN_IF_ERROR(function_of(cu, function, &found));
  // By the numbers of CUfunction_attribute.
  int values[CU_FUNC_ATTRIBUTE_MAX] = {};
  for (int i = 0; i < CU_FUNC_ATTRIBUTE_MAX; i++) {
    RETURN_IF_ERROR(cu.func_get_attribute(&values[i], static_cast<CUfunction_attribute>(i), found));
  }
  cudaFuncAttributes attributes{};
  attributes.maxThreadsPerBlock = values[0];
  attributes.sharedSizeBytes = static_cast<size_t>(values[1]);
  attributes.constSizeBytes = static_cast<size_t>(values[2]);
  attributes.localSizeBytes = static_cast<size_t>(values[3]);
  attributes.numRegs = values[4];
  attributes.ptxVersion = values[5];
  attributes.binaryVersion = values[6];
  attributes.cacheModeCA = values[7];
  attributes.maxDynamicSharedSizeBytes = values[8];
  attributes.preferredShmemCarveout = values[9];
  attributes.clusterDimMustBeSet = values[10];
  attributes.requiredClusterWidth = values[11];
  attributes.requiredClusterHeight = values[12];
  attributes.requiredClusterDepth = values[13];
  attributes.nonPortableClusterSizeAllowed = values[14];
  attributes.clusterSchedulingPolicyPreference = values[15];
  *out = attributes;
  return cudaSuccess;
}

RUNTIME_API cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  WITH_CONTEXT();
  CUfunction found;
  RETURN_IF_ERROR(function_of(cu, function, &found));
  return record(cu.func_set_attribute(found, static_cast<CUfunction_attribute>(attribute), value));
}

RUNTIME_API cudaFuncSetCacheConfig(const void* function, CUfunc_cache configuration) {
  WITH_CONTEXT();
  CUfunction found;
  RETURN_IF_ERROR(function_of(cu, function, &found));
  return record(cu.func_set_cache_config(found, configuration));
}

// Banks of shared memory have four bytes on every device of the last ten years.
RUNTIME_API cudaFuncSetSharedMemConfig(const void* function, int configuration) {
  WITH_CONTEXT();
  CUfunction found;
  RETURN_IF_ERROR(function_of(cu, function, &found));
  return configuration < 0 || configuration > 2 ? record(cudaErrorInvalidValue) : cudaSuccess;
}

RUNTIME_API cudaFuncGetName(const char** name, const void* function) {
  WITH_CONTEXT();
  CUkernel kernel;
  RETURN_IF_ERROR(kernel_of(cu, function, &kernel));
  return record(cu.kernel_get_name(name, kernel));
}

RUNTIME_API cudaFuncGetParamInfo(const void* function, size_t index, size_t* offset,
                                 size_t* bytes) {
  WITH_CONTEXT();
  CUfunction found;
  RETURN_IF_ERROR(function_of(cu, function, &found));
  return record(cu.func_get_param_info(found, index, offset, bytes));
}

RUNTIME_API cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  WITH_CONTEXT();
  if (!kernel) return record(cudaErrorInvalidValue);
  return record(kernel_of(cu, function, kernel));
}

RUNTIME_API cudaGetFuncBySymbol(cudaFunction_t* out, const void* function) {
  WITH_CONTEXT();
  if (!out) return record(cudaErrorInvalidValue);
  return record(function_of(cu, function, out));
}

RUNTIME_API cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                   const void* function,
                                                                   int threads, size_t shared_bytes,
                                                                   unsigned int flags) {
  WITH_CONTEXT();
  CUfunction found;
  RETURN_IF_ERROR(function_of(cu, function, &found));
  return record(cu.occupancy_max_active_blocks_per_multiprocessor_with_flags(blocks, found, threads,
                                                                             shared_bytes, flags));
}

RUNTIME_API cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int threads, size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads,
                                                                shared_bytes, 0);
}

RUNTIME_API cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function,
                                                      int blocks, int threads) {
  WITH_CONTEXT();
  CUfunction found;
  RETURN_IF_ERROR(function_of(cu, function, &found));
  return record(
      cu.occupancy_available_dynamic_shared_memory_per_block(bytes, found, blocks, threads));
}
