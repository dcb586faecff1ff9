// Launches and what they are planned with.
#include <cstring>

#include "gpu/forward_client/api.h"
#include "gpu/forward_client/captures.h"
#include "gpu/forward_client/launch_shape.h"

using namespace lambent::forward_client;

namespace {

int limit(CUdevice_attribute attribute) { return device().attributes[attribute]; }

CUresult capture_launch(CapturePoint& point, CUfunction handle, const LaunchShape& shape,
                        uint64_t stream, void** parameters, void** extra, bool cooperative)
    REQUIRES(state_mutex) {
  CUgraphNodeParams what{};
  what.type = CU_GRAPH_NODE_TYPE_KERNEL;
  what.kernel = {handle,         shape.grid[0],  shape.grid[1],  shape.grid[2],
                 shape.block[0], shape.block[1], shape.block[2], shape.shared_bytes,
                 parameters,     extra,          nullptr,        nullptr};
  GraphNode* node = nullptr;
  if (const CUresult result = capture_node(point, what, &node)) return result;
  node->cooperative = cooperative;
  const StreamRecord* record = state().streams.find(stream);
  node->priority = record == nullptr ? 0 : record->priority;
  node->has_priority = node->priority != 0;
  return CUDA_SUCCESS;
}

CUresult launch(CUfunction handle, const LaunchShape& shape, CUstream stream, void** parameters,
                void** extra, bool cooperative) {
  uint64_t number = 0;
  if (stream == CU_STREAM_PER_THREAD) {
    if (const CUresult result = resolve_stream(stream, &number)) return result;
  }
  alignas(16) char packed[lambent::forward_ring::kMostInlineBytes];
  size_t bytes = 0;
  {
    WITH_CONTEXT();
    if (stream != CU_STREAM_PER_THREAD) {
      if (const CUresult result = resolve_known_stream(stream, *context, &number)) return result;
    }
    const FunctionRecord* function = state().functions.find(number_of(handle));
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult result = check_shape(*function, shape)) return result;
    CapturePoint* point = nullptr;
    if (const CUresult result = find_point(number, *context, &point)) return result;
    if (point != nullptr) {
      return capture_launch(*point, handle, shape, number, parameters, extra, cooperative);
    }
    bytes = function->parameter_bytes;
    if (const CUresult result = pack_parameters(*function, parameters, extra, packed))
      return result;
  }
  const auto both = [](uint64_t low, uint64_t high) { return low | high << 32; };
  return send(make_call(CallCode::kLaunch, number_of(handle), number,
                        both(shape.grid[0], shape.grid[1]), both(shape.grid[2], shape.block[0]),
                        both(shape.block[1], shape.block[2]), shape.shared_bytes, cooperative),
              {packed, bytes});
}

// All blocks must fit at once: the driver says so at the launch, so it is asked first.
CUresult launch_cooperative(CUfunction function, const LaunchShape& shape, CUstream stream,
                            void** parameters) {
  if (!is_possible(shape)) return CUDA_ERROR_INVALID_VALUE;
  int fit = 0;
  const auto threads = static_cast<int>(shape.block[0] * shape.block[1] * shape.block[2]);
  const CUresult result =
      cuOccupancyMaxActiveBlocksPerMultiprocessor(&fit, function, threads, shape.shared_bytes);
  if (result != CUDA_SUCCESS) return result;
  const uint64_t most = static_cast<uint64_t>(fit) *
                        static_cast<uint64_t>(limit(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  const uint64_t blocks = uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
  if (blocks > most) return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  return launch(function, shape, stream, parameters, nullptr, true);
}

CUresult known(CUfunction function) {
  WITH_CONTEXT();
  const bool found = state().functions.find(number_of(function)) != nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                        void** parameters, void** extra) {
  const LaunchShape shape = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
  return launch(function, shape, stream, parameters, extra, false);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                   void** parameters) {
  const LaunchShape shape = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
  return launch_cooperative(function, shape, stream, parameters);
}

// Of the attributes, those that are wishes are dropped; one that changes what is computed and is
// not forwarded is refused.
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                          void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (config->numAttrs > 0 && config->attrs == nullptr) return CUDA_ERROR_INVALID_VALUE;
  bool cooperative = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    switch (attribute.id) {
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      // That it may begin early: it need not.
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        break;
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        cooperative = attribute.value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: {
        const auto& size = attribute.value.clusterDim;
        if (size.x <= 1 && size.y <= 1 && size.z <= 1) break;
        return CUDA_ERROR_NOT_SUPPORTED;
      }
      default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  const LaunchShape shape = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                             {config->blockDimX, config->blockDimY, config->blockDimZ},
                             config->sharedMemBytes};
  if (!cooperative) return launch(function, shape, config->hStream, parameters, extra, false);
  if (extra != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  return launch_cooperative(function, shape, config->hStream, parameters);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function,
                                                              int block, size_t dynamic_bytes,
                                                              unsigned int flags) {
  if (const CUresult result = known(function)) return result;
  if (blocks == nullptr || block <= 0) return CUDA_ERROR_INVALID_VALUE;
  uint64_t answer = 0;
  const CUresult result = ask(make_call(CallCode::kOccupancy, number_of(function),
                                        static_cast<uint64_t>(block), dynamic_bytes, flags),
                              &answer, 1);
  *blocks = static_cast<int>(answer);
  return result;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int block,
                                                     size_t dynamic_bytes) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block,
                                                              dynamic_bytes, 0);
}

// The callback is the program's, so the search is here: the most threads a multiprocessor, and of
// those the largest block.
CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function,
                                          CUoccupancyB2DSize dynamic_bytes_of, size_t dynamic_bytes,
                                          int most_block) {
  if (grid == nullptr || block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  FunctionRecord record{};
  {
    WITH_CONTEXT();
    const FunctionRecord* found = state().functions.find(number_of(function));
    if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    record = *found;
  }
  int most = record.attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
  if (most_block > 0 && most_block < most) most = most_block;
  const int warp = limit(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  int best_threads = 0;
  for (int size = (most + warp - 1) / warp * warp; size >= warp; size -= warp) {
    const int threads = size < most ? size : most;
    const size_t bytes = dynamic_bytes_of != nullptr ? dynamic_bytes_of(threads) : dynamic_bytes;
    int blocks = 0;
    const CUresult result =
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads, bytes);
    if (result != CUDA_SUCCESS) return result;
    if (blocks * threads <= best_threads) continue;
    best_threads = blocks * threads;
    *block = threads;
    *grid = blocks * limit(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  }
  return best_threads > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction function, int blocks,
                                                 int block) {
  if (const CUresult result = known(function)) return result;
  if (bytes == nullptr || blocks <= 0 || block <= 0) return CUDA_ERROR_INVALID_VALUE;
  uint64_t answer = 0;
  const CUresult result =
      ask(make_call(CallCode::kOccupancySharedMemory, number_of(function),
                    static_cast<uint64_t>(blocks), static_cast<uint64_t>(block)),
          &answer, 1);
  *bytes = answer;
  return result;
}
