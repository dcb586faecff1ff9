// Contexts: created, primary, current to a thread.
#include "emulator/emulated_cuda/api.h"

using namespace lambent::emulated_cuda;

namespace {

CUcontext as_handle(const Context* context) {
  return reinterpret_cast<CUcontext>(const_cast<Context*>(context));
}

bool valid_flags(unsigned flags) {
  unsigned schedule = flags & CU_CTX_SCHED_MASK;
  return !(flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) &&
         (schedule == 0 || (schedule & (schedule - 1)) == 0);
}

// The multiprocessors that the parameters allow, rounded up to what the hardware knows; 0 without
// parameters. The last of several counts.
CUresult read_affinity(const Process& process, const CUexecAffinityParam* parameters, int count,
                       CUdevice device, int* affinity) {
  int partition;
  if (CUresult result = process.device_of(device, &partition)) return result;
  if (count < 0 || (count > 0 && !parameters)) return CUDA_ERROR_INVALID_VALUE;
  *affinity = 0;
  for (int i = 0; i < count; i++) {
    if (parameters[i].type != CU_EXEC_AFFINITY_TYPE_SM_COUNT || !process.mps.active) {
      return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    }
    unsigned wanted = parameters[i].param.smCount.val;
    if (wanted == 0) return CUDA_ERROR_INVALID_VALUE;
    auto most = static_cast<unsigned>(process.spec(partition).multiprocessors);
    *affinity = static_cast<int>(wanted >= most ? most : (wanted + 1) / 2 * 2);
  }
  return CUDA_SUCCESS;
}

CUresult create(CUcontext* out, unsigned flags, CUdevice device,
                const CUexecAffinityParam* parameters = nullptr, int count = 0) {
  WITH_PROCESS();
  if (!out || !valid_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
  int affinity = 0;
  if (CUresult result = read_affinity(*process, parameters, count, device, &affinity)) {
    return result;
  }
  Context* context;
  if (CUresult result = process->create_context(device, flags, false, &context)) return result;
  context->affinity = affinity;
  context_stack().push_back(context);
  *out = as_handle(context);
  return CUDA_SUCCESS;
}

CUresult find(Process& process, CUcontext handle, std::shared_ptr<Context>* context) {
  *context = process.contexts.find(handle);
  return *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

}  // namespace

CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device) {
  return create(context, flags, device);
}

CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam* affinity, int count,
                        unsigned int flags, CUdevice device) {
  return create(context, flags, device, affinity, count);
}

CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* parameters, unsigned int flags,
                        CUdevice device) {
  if (!parameters) return create(context, flags, device);
  if (parameters->cigParams) return CUDA_ERROR_NOT_SUPPORTED;
  return create(context, flags, device, parameters->execAffinityParams,
                parameters->numExecAffinityParams);
}

// What CUDA gave up long ago, for programs that still have it: users of a context are counted. Ours
// never call these, so the table of functions lacks them.
#define OLD_CALL extern "C" __attribute__((visibility("default"))) CUresult
OLD_CALL cuCtxAttach(CUcontext* out, unsigned int flags) {
  WITH_CONTEXT();
  if (!out || flags) return CUDA_ERROR_INVALID_VALUE;
  if (context->primary || context->green) return CUDA_ERROR_INVALID_CONTEXT;
  context->uses++;
  *out = as_handle(context.get());
  return CUDA_SUCCESS;
}

OLD_CALL cuCtxDetach(CUcontext handle) {
  WITH_PROCESS();
  std::shared_ptr<Context> context = process->contexts.find(handle);
  if (!context || context->primary || context->green) return CUDA_ERROR_INVALID_CONTEXT;
  return --context->uses > 0 ? CUDA_SUCCESS : cuCtxDestroy_v2(handle);
}

CUresult cuCtxDestroy_v2(CUcontext handle) {
  WITH_PROCESS();
  std::shared_ptr<Context> context = process->contexts.find(handle);
  if (!context || context->primary || context->green) return CUDA_ERROR_INVALID_CONTEXT;
  process->contexts.remove(handle);
  auto& stack = context_stack();
  if (!stack.empty() && stack.back() == context.get()) stack.pop_back();
  process->destroy_context(std::move(context));
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  WITH_PROCESS();
  std::shared_ptr<Context> context;
  if (CUresult result = find(*process, handle, &context)) return result;
  context_stack().push_back(context.get());
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext* handle) {
  WITH_PROCESS();
  auto& stack = context_stack();
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (handle) *handle = as_handle(stack.back());
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  WITH_PROCESS();
  auto& stack = context_stack();
  if (!handle) {
    if (!stack.empty()) stack.pop_back();
    return CUDA_SUCCESS;
  }
  std::shared_ptr<Context> context;
  if (CUresult result = find(*process, handle, &context)) return result;
  if (stack.empty()) {
    stack.push_back(context.get());
  } else {
    stack.back() = context.get();
  }
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* handle) {
  WITH_PROCESS();
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  auto& stack = context_stack();
  *handle = stack.empty() ? nullptr : as_handle(stack.back());
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  WITH_CONTEXT();
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = context->ordinal;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext handle) {
  if (!handle) return cuCtxGetDevice(device);
  WITH_PROCESS();
  std::shared_ptr<Context> context;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = find(*process, handle, &context)) return result;
  *device = context->ordinal;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int* flags) {
  WITH_CONTEXT();
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = context->flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags) {
  WITH_CONTEXT();
  if (!valid_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
  context->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
  WITH_PROCESS();
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  CUresult result = handle ? find(*process, handle, &context) : current(&process, &context);
  if (result) return result;
  *id = context->id;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int* version) {
  WITH_PROCESS();
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  CUresult result = handle ? find(*process, handle, &context) : current(&process, &context);
  if (result) return result;
  *version = 3020;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
  WITH_CONTEXT();
  if (CUresult result = refuse_if_context_captures(*process, *context)) return result;
  synchronize_with_green(*process, *context);
  process->pools.observe();
  return process->health_of(*context);
}

CUresult cuCtxSynchronize_v2(CUcontext handle) {
  if (!handle) return cuCtxSynchronize();
  WITH_PROCESS();
  std::shared_ptr<Context> context;
  if (CUresult result = find(*process, handle, &context)) return result;
  if (CUresult result = refuse_if_context_captures(*process, *context)) return result;
  synchronize_with_green(*process, *context);
  process->pools.observe();
  return process->health_of(*context);
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam* parameter, CUexecAffinityType type) {
  WITH_CONTEXT();
  if (!parameter) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_EXEC_AFFINITY_TYPE_SM_COUNT) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  int most = process->spec(context->device).multiprocessors;
  int limit = mps_limit(process->mps, most);
  if (context->affinity > 0) limit = context->affinity;
  parameter->type = type;
  parameter->param.smCount.val = static_cast<unsigned>(limit > 0 ? limit : most);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  WITH_CONTEXT();
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (limit > CU_LIMIT_MALLOC_HEAP_SIZE) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = context->limits[limit];
  return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  WITH_CONTEXT();
  if (limit > CU_LIMIT_MALLOC_HEAP_SIZE) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  context->limits[limit] = value;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* configuration) {
  WITH_CONTEXT();
  if (!configuration) return CUDA_ERROR_INVALID_VALUE;
  *configuration = context->cache;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache configuration) {
  WITH_CONTEXT();
  if (configuration > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
  context->cache = configuration;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  WITH_CONTEXT();
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void) {
  WITH_CONTEXT();
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  WITH_PROCESS();
  int index;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = process->device_of(device, &index)) return result;
  const lambent::MutexLock lock(process->primary_mutex);
  Primary& primary = process->primaries[index];
  if (!primary.context) {
    Context* context;
    if (CUresult result = process->create_context(device, primary.flags, true, &context)) {
      return result;
    }
    primary.context = process->contexts.find(context);
  }
  primary.references++;
  *out = as_handle(primary.context.get());
  return CUDA_SUCCESS;
}

namespace {
CUresult release_primary(CUdevice device, bool all) {
  WITH_PROCESS();
  int index;
  if (CUresult result = process->device_of(device, &index)) return result;
  const lambent::MutexLock lock(process->primary_mutex);
  Primary& primary = process->primaries[index];
  if (!primary.context) return all ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
  primary.references = all ? 0 : primary.references - 1;
  if (primary.references > 0) return CUDA_SUCCESS;
  process->contexts.remove(primary.context.get());
  process->destroy_context(std::move(primary.context));
  primary.context = nullptr;
  return CUDA_SUCCESS;
}
}  // namespace

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { return release_primary(device, false); }
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) { return release_primary(device, true); }

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
  WITH_PROCESS();
  int index;
  if (!valid_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = process->device_of(device, &index)) return result;
  const lambent::MutexLock lock(process->primary_mutex);
  Primary& primary = process->primaries[index];
  primary.flags = flags;
  if (primary.context) primary.context->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  WITH_PROCESS();
  int index;
  if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = process->device_of(device, &index)) return result;
  const lambent::MutexLock lock(process->primary_mutex);
  *flags = process->primaries[index].flags;
  *active = process->primaries[index].context != nullptr;
  return CUDA_SUCCESS;
}
