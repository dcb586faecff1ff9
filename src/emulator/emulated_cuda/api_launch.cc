// Launches of kernels: checked, their parameters copied, then put into a stream.
#include <span>

#include "emulator/emulated_cuda/api.h"

using namespace lambent::emulated_cuda;

namespace {

CUresult launch_on(CUfunction handle, const emulated_launch& shape, CUstream stream_handle,
                   void** given, void** extra, std::span<const CUlaunchAttribute> attributes) {
  WITH_STREAM(stream_handle);
  KernelLaunch launch;
  launch.function = find_function(*process, handle);
  launch.shape = shape;
  launch.priority = stream->priority;
  if (!launch.function) return CUDA_ERROR_INVALID_HANDLE;
  // The function and the stream must be of one context, and the current one at that.
  void* own = launch.function->module->context;
  // Green contexts count as the primary one.
  bool own_root = !own || same_root(*process, own, context.get());
  if (!own_root || !same_root(*process, context.get(), context_stack().back())) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  for (const CUlaunchAttribute& attribute : attributes) {
    if (CUresult result = set_attribute(launch, attribute.id, attribute.value)) return result;
  }
  if (CUresult result = check_launch(*process, *context, *launch.function, shape)) return result;
  if (launch.cooperative) {
    if (CUresult result = check_cooperative(*process, *context, *launch.function, shape)) {
      return result;
    }
  }
  if (CUresult result =
          copy_parameters(*launch.function->kernel, given, extra, &launch.parameters)) {
    return result;
  }
  launch.ready_ns = process->node->now_ns() + process->spec(context->device).launch_ns;
  launch.sequence = process->next_id++;
  return enqueue(*process, context, stream, std::move(launch));
}

}  // namespace

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                        void** parameters, void** extra) {
  emulated_launch launch{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
  return launch_on(function, launch, stream, parameters, extra, {});
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                          void** extra) {
  if (!config || (config->numAttrs && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
  emulated_launch shape{{config->gridDimX, config->gridDimY, config->gridDimZ},
                        {config->blockDimX, config->blockDimY, config->blockDimZ},
                        config->sharedMemBytes};
  return launch_on(function, shape, config->hStream, parameters, extra,
                   {config->attrs, config->numAttrs});
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                   void** parameters) {
  emulated_launch shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
  CUlaunchAttribute cooperative{};
  cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  cooperative.value.cooperative = 1;
  return launch_on(function, shape, stream, parameters, nullptr, {&cooperative, 1});
}

// Everything is loaded with its module.
CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction handle) {
  WITH_PROCESS();
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  if (!find_function(*process, handle)) return CUDA_ERROR_INVALID_HANDLE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}
CUresult cuFuncLoad(CUfunction handle) {
  WITH_PROCESS();
  return find_function(*process, handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
