// Launches: checked, their parameters copied, then run and timed on a stream; and occupancy, from
// which the model takes how much of the device a launch fills.
#include <algorithm>
#include <cstring>

#include "emulated_cuda/api.h"

using namespace lambent::emulated_cuda;

namespace {

constexpr int64_t kLongestSleep_ns = 20'000'000;  // between looks at who else is still alive
constexpr int64_t kFullTableSleep_ns = 1'000'000;

// A launch's own copy of its parameters.
struct Parameters {
  std::vector<unsigned char> bytes;
  std::vector<void*> pointers;
};

size_t align_up(size_t value, size_t alignment) {
  alignment = std::max<size_t>(1, alignment);
  return (value + alignment - 1) / alignment * alignment;
}

CUresult copy_parameters(const emulated_kernel& kernel, void** given, void** extra,
                         std::shared_ptr<Parameters>* out) {
  auto parameters = std::make_shared<Parameters>();
  std::vector<size_t> offsets;
  size_t total = 0;
  for (uint32_t i = 0; i < kernel.parameter_count; i++) {
    total = align_up(total, kernel.parameter_alignments[i]);
    offsets.push_back(total);
    total += kernel.parameter_sizes[i];
  }
  parameters->bytes.resize(total + 16);
  // Values keep their alignment only if the block of bytes begins aligned.
  auto base = reinterpret_cast<uintptr_t>(parameters->bytes.data());
  unsigned char* first = parameters->bytes.data() + (align_up(base, 16) - base);

  const unsigned char* packed = nullptr;
  size_t packed_bytes = 0;
  for (void** item = extra; item && *item != CU_LAUNCH_PARAM_END; item += 2) {
    if (*item == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      packed = static_cast<const unsigned char*>(item[1]);
    } else if (*item == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      packed_bytes = *static_cast<const size_t*>(item[1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (given && packed) return CUDA_ERROR_INVALID_VALUE;
  if (total > 0 && !given && (!packed || packed_bytes < total)) return CUDA_ERROR_INVALID_VALUE;
  for (uint32_t i = 0; i < kernel.parameter_count; i++) {
    const void* from = given ? given[i] : packed + offsets[i];
    if (!from) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(first + offsets[i], from, kernel.parameter_sizes[i]);
    parameters->pointers.push_back(first + offsets[i]);
  }
  parameters->pointers.push_back(nullptr);
  *out = std::move(parameters);
  return CUDA_SUCCESS;
}

// Blocks that one multiprocessor holds at a time.
int resident_blocks(const DeviceSpec& spec, const emulated_kernel& kernel, int threads,
                    size_t dynamic_shared) {
  if (threads <= 0) return 0;
  int whole_warps = (threads + 31) / 32 * 32;
  int blocks =
      std::min(spec.blocks_per_multiprocessor, spec.threads_per_multiprocessor / whole_warps);
  if (kernel.registers_per_thread > 0) {
    int64_t registers = int64_t{kernel.registers_per_thread} * whole_warps;
    blocks =
        static_cast<int>(std::min<int64_t>(blocks, spec.registers_per_multiprocessor / registers));
  }
  size_t shared = kernel.static_shared_bytes + dynamic_shared;
  if (shared > 0) {
    blocks =
        static_cast<int>(std::min<size_t>(blocks, spec.shared_bytes_per_multiprocessor / shared));
  }
  return std::max(0, blocks);
}

CUresult check(const DeviceSpec& spec, const Function& function, const emulated_launch& launch) {
  const emulated_dim3 &grid = launch.grid, &block = launch.block;
  if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (grid.x > 0x7FFFFFFF || grid.y > 65535 || grid.z > 65535) return CUDA_ERROR_INVALID_VALUE;
  if (block.x > 1024 || block.y > 1024 || block.z > 64) return CUDA_ERROR_INVALID_VALUE;
  uint64_t threads = uint64_t{block.x} * block.y * block.z;
  uint32_t most = function.kernel->max_threads_per_block;
  if (threads > 1024 || (most && threads > most)) return CUDA_ERROR_INVALID_VALUE;
  if (launch.dynamic_shared_bytes > static_cast<uint32_t>(function.max_dynamic_shared_bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (resident_blocks(spec, *function.kernel, static_cast<int>(threads),
                      launch.dynamic_shared_bytes) == 0) {
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  return CUDA_SUCCESS;
}

KernelDemand demand_of(Process& process, const Context& context, const emulated_kernel& kernel,
                       const emulated_launch& launch, void** parameters, int64_t begin_ns) {
  const DeviceSpec& spec = process.spec(context.device);
  uint64_t blocks = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  uint64_t threads = uint64_t{launch.block.x} * launch.block.y * launch.block.z;
  uint64_t resident = static_cast<uint64_t>(
      resident_blocks(spec, kernel, static_cast<int>(threads), launch.dynamic_shared_bytes));
  uint64_t wanted = std::min<uint64_t>((blocks + resident - 1) / resident,
                                       static_cast<uint64_t>(spec.multiprocessors));
  uint64_t per_wave = resident * spec.multiprocessors;
  KernelDemand demand;
  demand.context = (process.generation << 20) + context.id;
  demand.process = process.row;
  demand.multiprocessors = static_cast<uint32_t>(wanted);
  demand.duration_ns =
      kernel.duration_ns ? static_cast<int64_t>(std::min<uint64_t>(
                               kernel.duration_ns(&launch, parameters), uint64_t{1} << 60))
                         : static_cast<int64_t>((blocks + per_wave - 1) / per_wave) * spec.wave_ns;
  demand.begin_ns = begin_ns;
  demand.held = !process.settings.model_mode;
  return demand;
}

uint64_t enter_model(Process& process, int device, const KernelDemand& demand) {
  for (;;) {
    {
      Node::Guard guard(*process.node);
      guard.reap(false);
      if (uint64_t ticket = start(guard->devices[device].model, demand)) return ticket;
      guard.reap(true);
    }
    process.node->sleep_until(INT64_MAX / 4, kFullTableSleep_ns);
  }
}

// Waits for the kernel's modelled end. Others may join or die meanwhile, so the prediction is asked
// again after every sleep.
int64_t leave_model(Process& process, int device, uint64_t ticket) {
  {
    Node::Guard guard(*process.node);
    release_hold(guard->devices[device].model, ticket);
  }
  for (;;) {
    int64_t predicted_ns;
    {
      Node::Guard guard(*process.node);
      DeviceModel& model = guard->devices[device].model;
      if (active_kernels(model) > 1) guard.reap(false);
      int64_t finish_ns = finished_at(model, ticket);
      if (finish_ns >= 0) {
        remove(model, ticket);
        return finish_ns;
      }
      predicted_ns = predicted_finish(model, ticket);
    }
    process.node->sleep_until(predicted_ns, kLongestSleep_ns);
  }
}

CUresult launch_on(CUfunction handle, const emulated_launch& launch, CUstream stream_handle,
                   void** given, void** extra) {
  WITH_STREAM(stream_handle);
  auto function = process->functions.find(handle);
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult result = check(process->spec(context->device), *function, launch)) return result;
  std::shared_ptr<Parameters> parameters;
  if (CUresult result = copy_parameters(*function->kernel, given, extra, &parameters)) {
    return result;
  }
  int64_t ready_ns = process->node->now_ns() + process->spec(context->device).launch_ns;
  submit(*process, *context, *stream, [=, context = context.get()](int64_t begin_ns) {
    const emulated_kernel& kernel = *function->kernel;
    begin_ns = std::max(begin_ns, ready_ns);
    // The launch overhead, if it is not over yet, is part of the wait for the modelled end.
    KernelDemand demand =
        demand_of(*process, *context, kernel, launch, parameters->pointers.data(), begin_ns);
    process->node->sleep_until(begin_ns, kLongestSleep_ns);
    uint64_t ticket = enter_model(*process, context->device, demand);
    int64_t body_end_ns = 0;
    if (!process->settings.model_mode) {
      process->blocks.run(kernel, launch, parameters->pointers.data());
      body_end_ns = process->node->now_ns();
    }
    return std::max(leave_model(*process, context->device, ticket), body_end_ns);
  });
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                        void** parameters, void** extra) {
  emulated_launch launch{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
  return launch_on(function, launch, stream, parameters, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                          void** extra) {
  if (!config || (config->numAttrs && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < config->numAttrs; i++) {
    switch (config->attrs[i].id) {
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        if (config->attrs[i].value.cooperative == 0) break;
        log_refusal("cuLaunchKernelEx(COOPERATIVE)", "blocks do not wait for each other here");
        return CUDA_ERROR_NOT_SUPPORTED;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        log_refusal("cuLaunchKernelEx(CLUSTER_DIMENSION)", "clusters are not emulated");
        return CUDA_ERROR_NOT_SUPPORTED;
      default:
        break;  // hints, which change no result
    }
  }
  emulated_launch launch{{config->gridDimX, config->gridDimY, config->gridDimZ},
                         {config->blockDimX, config->blockDimY, config->blockDimZ},
                         config->sharedMemBytes};
  return launch_on(function, launch, config->hStream, parameters, extra);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction handle, int threads,
                                                     size_t dynamic_shared) {
  WITH_PROCESS();
  auto function = process->functions.find(handle);
  if (!blocks || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  bool too_large = threads > 1024;
  *blocks = too_large ? 0
                      : resident_blocks(process->spec(function->module->device), *function->kernel,
                                        threads, dynamic_shared);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function,
                                                              int threads, size_t dynamic_shared,
                                                              unsigned int flags) {
  if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, dynamic_shared);
}

CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction handle,
                                          CUoccupancyB2DSize shared_of_block, size_t dynamic_shared,
                                          int limit) {
  WITH_PROCESS();
  auto function = process->functions.find(handle);
  if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  const DeviceSpec& spec = process->spec(function->module->device);
  uint32_t stated = function->kernel->max_threads_per_block;
  int most = stated ? static_cast<int>(std::min<uint32_t>(1024, stated)) : 1024;
  if (limit > 0) most = std::min(most, limit);
  int best = 0, best_block = 0, best_resident = 0;
  for (int threads = std::max(32, most / 32 * 32); threads >= 32; threads -= 32) {
    size_t shared = shared_of_block ? shared_of_block(threads) : dynamic_shared;
    int resident = resident_blocks(spec, *function->kernel, threads, shared);
    if (resident * threads <= best) continue;
    best = resident * threads;
    best_block = threads;
    best_resident = resident;
  }
  *block = best_block;
  *grid = best_resident * spec.multiprocessors;
  return CUDA_SUCCESS;
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction handle, int blocks,
                                                 int threads) {
  WITH_PROCESS();
  auto function = process->functions.find(handle);
  if (!bytes || blocks <= 0 || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  const DeviceSpec& spec = process->spec(function->module->device);
  size_t per_block = static_cast<size_t>(spec.shared_bytes_per_multiprocessor / blocks);
  per_block = std::min<size_t>(per_block, spec.shared_bytes_per_block_optin);
  size_t fixed = function->kernel->static_shared_bytes;
  *bytes = per_block > fixed ? per_block - fixed : 0;
  return CUDA_SUCCESS;
}
