// Launches and what they are planned with.
#include <cstring>

#include "forwarded_cuda/api.h"

using namespace lambent::forwarded_cuda;

namespace {

struct Shape {
  unsigned grid[3], block[3], shared_bytes;
};

int limit(CUdevice_attribute attribute) { return device().attributes[attribute]; }

bool is_possible(const Shape& shape) {
  static_assert(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z == CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + 2);
  static_assert(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z == CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + 2);
  uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    const auto block = static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i);
    const auto grid = static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i);
    if (shape.block[i] == 0 || shape.block[i] > static_cast<unsigned>(limit(block))) return false;
    if (shape.grid[i] == 0 || shape.grid[i] > static_cast<unsigned>(limit(grid))) return false;
    threads *= shape.block[i];
  }
  return threads <= static_cast<unsigned>(limit(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
}

// Parameters as one piece of memory, from the form in which a program gives them.
CUresult pack(const FunctionRecord& function, void** parameters, void** extra, char* packed) {
  if (extra != nullptr) {
    if (parameters != nullptr) return CUDA_ERROR_INVALID_VALUE;
    const void* bytes = nullptr;
    size_t size = 0;
    for (int at = 0; extra[at] != CU_LAUNCH_PARAM_END; at += 2) {
      if (extra[at] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
        bytes = extra[at + 1];
      } else if (extra[at] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
        size = *static_cast<size_t*>(extra[at + 1]);
      } else {
        return CUDA_ERROR_INVALID_VALUE;
      }
    }
    if (size < function.parameter_bytes) return CUDA_ERROR_INVALID_VALUE;
    if (function.parameter_bytes > 0 && bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (function.parameter_bytes > 0) std::memcpy(packed, bytes, function.parameter_bytes);
    return CUDA_SUCCESS;
  }
  if (function.parameter_count > 0 && parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (uint32_t i = 0; i < function.parameter_count; ++i) {
    const auto& place = function.parameters[i];
    if (parameters[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(packed + place.offset, parameters[i], place.bytes);
  }
  return CUDA_SUCCESS;
}

CUresult launch(CUfunction handle, const Shape& shape, CUstream stream, void** parameters,
                void** extra, bool cooperative) {
  uint64_t number = 0;
  if (stream == CU_STREAM_PER_THREAD) {
    if (const CUresult result = resolve_stream(stream, &number)) return result;
  }
  alignas(16) char packed[lambent::forwarding::kMostInlineBytes];
  size_t bytes = 0;
  {
    WITH_CONTEXT();
    if (stream != CU_STREAM_PER_THREAD) {
      if (const CUresult result = resolve_known_stream(stream, *context, &number)) return result;
    }
    if (!is_possible(shape)) return CUDA_ERROR_INVALID_VALUE;
    const FunctionRecord* function = state().functions.find(number_of(handle));
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const unsigned threads = shape.block[0] * shape.block[1] * shape.block[2];
    const int most = function->attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
    if (most > 0 && threads > static_cast<unsigned>(most)) return CUDA_ERROR_INVALID_VALUE;
    const int shared = function->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES];
    if (shape.shared_bytes > static_cast<unsigned>(shared)) return CUDA_ERROR_INVALID_VALUE;
    bytes = function->parameter_bytes;
    if (bytes > sizeof(packed)) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = pack(*function, parameters, extra, packed)) return result;
  }
  const auto both = [](uint64_t low, uint64_t high) { return low | high << 32; };
  return send(make_call(CallCode::kLaunch, number_of(handle), number,
                        both(shape.grid[0], shape.grid[1]), both(shape.grid[2], shape.block[0]),
                        both(shape.block[1], shape.block[2]), shape.shared_bytes, cooperative),
              {packed, bytes});
}

// All blocks must fit at once: the driver says so at the launch, so it is asked first.
CUresult launch_cooperative(CUfunction function, const Shape& shape, CUstream stream,
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
  const Shape shape = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
  return launch(function, shape, stream, parameters, extra, false);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                   void** parameters) {
  const Shape shape = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
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
  const Shape shape = {{config->gridDimX, config->gridDimY, config->gridDimZ},
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
