// cudaGetDeviceProperties, put together from the driver's attributes, and the choice by them.
#include <cstring>

#include "emulator/emulated_runtime/api.h"

using namespace lambent::emulated_runtime;

namespace {

// Fills in numbers; an attribute that the driver does not know stays 0.
class Attributes {
 public:
  Attributes(const Driver& driver, int device) : driver_(driver), device_(device) {}
  template <class Field>
  void operator()(Field& field, CUdevice_attribute attribute) const {
    int value = 0;
    driver_.device_get_attribute(&value, attribute, device_);
    field = static_cast<Field>(value);
  }

 private:
  const Driver& driver_;
  int device_;
};

void read_limits(const Attributes& read, cudaDeviceProp& p) {
  read(p.sharedMemPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  read(p.sharedMemPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  read(p.sharedMemPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  read(p.reservedSharedMemPerBlock, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  read(p.regsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  read(p.regsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  read(p.warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  read(p.memPitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  read(p.maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  read(p.maxThreadsPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  read(p.maxBlocksPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  read(p.maxThreadsDim[0], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  read(p.maxThreadsDim[1], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  read(p.maxThreadsDim[2], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  read(p.maxGridSize[0], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  read(p.maxGridSize[1], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  read(p.maxGridSize[2], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  read(p.totalConstMem, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  read(p.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  read(p.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  read(p.multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  read(p.memoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  read(p.l2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  read(p.persistingL2CacheMaxSize, CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE);
  read(p.accessPolicyMaxWindowSize, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE);
  read(p.asyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
}

void read_textures(const Attributes& read, cudaDeviceProp& p) {
  read(p.textureAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  read(p.texturePitchAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT);
  read(p.surfaceAlignment, CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT);
  read(p.maxTexture1D, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH);
  read(p.maxTexture1DMipmap, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH);
  read(p.maxTexture2D[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH);
  read(p.maxTexture2D[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT);
  read(p.maxTexture2DMipmap[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH);
  read(p.maxTexture2DMipmap[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT);
  read(p.maxTexture2DLinear[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH);
  read(p.maxTexture2DLinear[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT);
  read(p.maxTexture2DLinear[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH);
  read(p.maxTexture2DGather[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH);
  read(p.maxTexture2DGather[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT);
  read(p.maxTexture3D[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH);
  read(p.maxTexture3D[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT);
  read(p.maxTexture3D[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH);
  read(p.maxTexture3DAlt[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE);
  read(p.maxTexture3DAlt[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE);
  read(p.maxTexture3DAlt[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE);
  read(p.maxTextureCubemap, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH);
  read(p.maxTexture1DLayered[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH);
  read(p.maxTexture1DLayered[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS);
  read(p.maxTexture2DLayered[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH);
  read(p.maxTexture2DLayered[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT);
  read(p.maxTexture2DLayered[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS);
  read(p.maxTextureCubemapLayered[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH);
  read(p.maxTextureCubemapLayered[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS);
}

void read_surfaces(const Attributes& read, cudaDeviceProp& p) {
  read(p.maxSurface1D, CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH);
  read(p.maxSurface2D[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH);
  read(p.maxSurface2D[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT);
  read(p.maxSurface3D[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH);
  read(p.maxSurface3D[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT);
  read(p.maxSurface3D[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH);
  read(p.maxSurface1DLayered[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH);
  read(p.maxSurface1DLayered[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS);
  read(p.maxSurface2DLayered[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH);
  read(p.maxSurface2DLayered[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT);
  read(p.maxSurface2DLayered[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS);
  read(p.maxSurfaceCubemap, CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH);
  read(p.maxSurfaceCubemapLayered[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH);
  read(p.maxSurfaceCubemapLayered[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS);
}

void read_abilities(const Attributes& read, cudaDeviceProp& p) {
  read(p.integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED);
  read(p.canMapHostMemory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
  read(p.concurrentKernels, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
  read(p.ECCEnabled, CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
  read(p.pciBusID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  read(p.pciDeviceID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
  read(p.pciDomainID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
  read(p.tccDriver, CU_DEVICE_ATTRIBUTE_TCC_DRIVER);
  read(p.unifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
  read(p.streamPrioritiesSupported, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED);
  read(p.globalL1CacheSupported, CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED);
  read(p.localL1CacheSupported, CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED);
  read(p.managedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
  read(p.isMultiGpuBoard, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD);
  read(p.multiGpuBoardGroupID, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID);
  read(p.hostNativeAtomicSupported, CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED);
  read(p.pageableMemoryAccess, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
  read(p.concurrentManagedAccess, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
  read(p.computePreemptionSupported, CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED);
  read(p.canUseHostPointerForRegisteredMem,
       CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
  read(p.cooperativeLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
  read(p.pageableMemoryAccessUsesHostPageTables,
       CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
  read(p.directManagedMemAccessFromHost, CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST);
  read(p.hostRegisterSupported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
  read(p.sparseCudaArraySupported, CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED);
  read(p.hostRegisterReadOnlySupported, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED);
  read(p.timelineSemaphoreInteropSupported,
       CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED);
  read(p.memoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  read(p.gpuDirectRDMASupported, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
  read(p.gpuDirectRDMAFlushWritesOptions, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
  read(p.gpuDirectRDMAWritesOrdering, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
  read(p.memoryPoolSupportedHandleTypes, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES);
  read(p.deferredMappingCudaArraySupported,
       CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED);
  read(p.ipcEventSupported, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED);
  read(p.clusterLaunch, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
  read(p.unifiedFunctionPointers, CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS);
  read(p.deviceNumaConfig, CU_DEVICE_ATTRIBUTE_NUMA_CONFIG);
  read(p.deviceNumaId, CU_DEVICE_ATTRIBUTE_NUMA_ID);
  read(p.mpsEnabled, CU_DEVICE_ATTRIBUTE_MPS_ENABLED);
  read(p.hostNumaId, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
  read(p.gpuPciDeviceID, CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID);
  read(p.gpuPciSubsystemID, CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID);
  read(p.hostNumaMultinodeIpcSupported, CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED);
}

}  // namespace

RUNTIME_API cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  WITH_DRIVER();
  if (!properties) return record(cudaErrorInvalidValue);
  cudaDeviceProp found{};
  RETURN_IF_ERROR(cu.device_get_name(found.name, sizeof found.name, device));
  RETURN_IF_ERROR(cu.device_get_uuid_v2(&found.uuid, device));
  RETURN_IF_ERROR(cu.device_total_mem(&found.totalGlobalMem, device));
  const Attributes read(cu, device);
  read_limits(read, found);
  read_textures(read, found);
  read_surfaces(read, found);
  read_abilities(read, found);
  *properties = found;
  return cudaSuccess;
}

// The device that meets most of what is asked for; fields that are 0 ask for nothing.
RUNTIME_API cudaChooseDevice(int* device, const cudaDeviceProp* wanted) {
  WITH_DRIVER();
  if (!device || !wanted) return record(cudaErrorInvalidValue);
  int count = 0, best_met = -1;
  RETURN_IF_ERROR(cu.device_get_count(&count));
  for (int i = 0; i < count; i++) {
    cudaDeviceProp has;
    RETURN_IF_ERROR(cudaGetDeviceProperties(&has, i));
    int met =
        (has.major > wanted->major || (has.major == wanted->major && has.minor >= wanted->minor)) +
        (has.totalGlobalMem >= wanted->totalGlobalMem) +
        (has.multiProcessorCount >= wanted->multiProcessorCount) +
        (has.sharedMemPerBlock >= wanted->sharedMemPerBlock) +
        (has.maxThreadsPerBlock >= wanted->maxThreadsPerBlock);
    if (met <= best_met) continue;
    best_met = met;
    *device = i;
  }
  return cudaSuccess;
}
