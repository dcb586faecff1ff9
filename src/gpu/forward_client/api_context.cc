// Contexts: the executor has one, and groups what a client holds by the contexts that the client
// believes in. Which is current to a thread is known only here.
#include "gpu/forward_client/api.h"
#include "gpu/forward_client/captures.h"

using namespace lambent::forward_client;

namespace {

constexpr unsigned kApiVersion = 3020;
constexpr unsigned kNewApiVersion = 4000;

CUresult check_device(CUdevice device) {
  if (const CUresult state = connection_state()) return state;
  return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

bool are_flags(unsigned flags) {
  if ((flags & ~unsigned{CU_CTX_FLAGS_MASK}) != 0) return false;
  const unsigned how = flags & CU_CTX_SCHED_MASK;
  return how == CU_CTX_SCHED_AUTO || how == CU_CTX_SCHED_SPIN || how == CU_CTX_SCHED_YIELD ||
         how == CU_CTX_SCHED_BLOCKING_SYNC;
}

CUresult create(CUcontext* made, unsigned flags, CUdevice device, unsigned version) {
  if (const CUresult result = check_device(device)) return result;
  if (made == nullptr || !are_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
  ThreadState& thread = thread_state();
  if (thread.depth == ThreadState::kMostContexts) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = CUDA_SUCCESS;
  const StateLock lock;
  Context* context = state().create_context(flags, version, &result);
  if (context == nullptr) return result;
  *made = handle_of(context);
  thread.stack[thread.depth++] = *made;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext* handle, CUdevice device) {
  if (const CUresult result = check_device(device)) return result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const StateLock lock;
  if (state().primary == nullptr) {
    CUresult result = CUDA_SUCCESS;
    Context* made = state().create_context(state().primary_flags, kApiVersion, &result);
    if (made == nullptr) return result;
    made->primary = true;
    state().primary = made;
  }
  ++state().primary->users;
  *handle = handle_of(state().primary);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  if (const CUresult result = check_device(device)) return result;
  CUcontext last = nullptr;
  {
    const StateLock lock;
    Context* primary = state().primary;
    if (primary == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary->users > 0) return CUDA_SUCCESS;
    last = handle_of(primary);
  }
  return State::destroy_context(last);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  if (const CUresult result = check_device(device)) return result;
  CUcontext primary = nullptr;
  {
    const StateLock lock;
    if (state().primary == nullptr) return CUDA_SUCCESS;
    primary = handle_of(state().primary);
  }
  return State::destroy_context(primary);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
  if (const CUresult result = check_device(device)) return result;
  if (!are_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
  const StateLock lock;
  state().primary_flags = flags;
  if (state().primary != nullptr) state().primary->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  if (const CUresult result = check_device(device)) return result;
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const StateLock lock;
  *flags = state().primary_flags;
  *active = state().primary != nullptr;
  return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device) {
  return create(context, flags, device, kApiVersion);
}

// Shares of a device are given by the worker, not taken.
CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam*, int affinities,
                        unsigned int flags, CUdevice device) {
  if (affinities != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return create(context, flags, device, kApiVersion);
}

CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* parameters, unsigned int flags,
                        CUdevice device) {
  if (parameters != nullptr && parameters->numExecAffinityParams != 0) {
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  }
  if (parameters != nullptr && parameters->cigParams != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  return create(context, flags, device, kNewApiVersion);
}

CUresult cuCtxDestroy_v2(CUcontext handle) {
  if (const CUresult result = connection_state()) return result;
  {
    const StateLock lock;
    const Context* context = state().find_context(handle);
    if (context == nullptr || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
  }
  ThreadState& thread = thread_state();
  if (thread.depth > 0 && thread.stack[thread.depth - 1] == handle) --thread.depth;
  return State::destroy_context(handle);
}

CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  if (const CUresult result = connection_state()) return result;
  const StateLock lock;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (state().find_context(handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  ThreadState& thread = thread_state();
  if (thread.depth == ThreadState::kMostContexts) return CUDA_ERROR_OUT_OF_MEMORY;
  thread.stack[thread.depth++] = handle;
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext* handle) {
  if (connection_state() == CUDA_ERROR_NOT_INITIALIZED) return CUDA_ERROR_NOT_INITIALIZED;
  ThreadState& thread = thread_state();
  if (thread.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --thread.depth;
  if (handle != nullptr) *handle = thread.stack[thread.depth];
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  if (const CUresult result = connection_state()) return result;
  const StateLock lock;
  ThreadState& thread = thread_state();
  if (handle == nullptr) {
    if (thread.depth > 0) --thread.depth;
    return CUDA_SUCCESS;
  }
  if (state().find_context(handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (thread.depth == 0) thread.depth = 1;
  thread.stack[thread.depth - 1] = handle;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* handle) {
  if (connection_state() == CUDA_ERROR_NOT_INITIALIZED) return CUDA_ERROR_NOT_INITIALIZED;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ThreadState& thread = thread_state();
  *handle = thread.depth == 0 ? nullptr : thread.stack[thread.depth - 1];
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  WITH_CONTEXT();
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext handle) {
  if (handle == nullptr) return cuCtxGetDevice(device);
  if (const CUresult result = connection_state()) return result;
  const StateLock lock;
  if (state().find_context(handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int* flags) {
  WITH_CONTEXT();
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = context->flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags) {
  WITH_CONTEXT();
  if (!are_flags(flags)) return CUDA_ERROR_INVALID_VALUE;
  context->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (handle == nullptr) {
    WITH_CONTEXT();
    *id = context->id;
    return CUDA_SUCCESS;
  }
  if (const CUresult result = connection_state()) return result;
  const StateLock lock;
  const Context* context = state().find_context(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *id = context->id;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
  uint64_t number = 0;
  {
    WITH_CONTEXT();
    if (const CUresult result = refuse_if_context_captures(*context)) return result;
    number = context->number;
  }
  return ask(make_call(CallCode::kSynchronizeContext, number));
}

CUresult cuCtxSynchronize_v2(CUcontext handle) {
  if (handle == nullptr) return cuCtxSynchronize();
  if (const CUresult result = connection_state()) return result;
  uint64_t number = 0;
  {
    const StateLock lock;
    const Context* context = state().find_context(handle);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (const CUresult result = refuse_if_context_captures(*context)) return result;
    number = context->number;
  }
  return ask(make_call(CallCode::kSynchronizeContext, number));
}

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  WITH_CONTEXT();
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto number = static_cast<uint32_t>(limit);
  if (number >= lambent::forward_ring::kMostLimits) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = device().limits[number];
  return CUDA_SUCCESS;
}

// The context is shared: what it allows its kernels is not one client's to say. What it allows
// already is granted.
CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  WITH_CONTEXT();
  const auto number = static_cast<uint32_t>(limit);
  if (number >= lambent::forward_ring::kMostLimits || value > device().limits[number]) {
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  }
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  WITH_CONTEXT();
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = context->cache;
  return CUDA_SUCCESS;
}

// A wish that the driver need not follow; the context is shared, so it is remembered and no more.
CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  WITH_CONTEXT();
  if (static_cast<unsigned>(config) > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
  context->cache = config;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (handle == nullptr) {
    WITH_CONTEXT();
    *version = context->api_version;
    return CUDA_SUCCESS;
  }
  if (const CUresult result = connection_state()) return result;
  const StateLock lock;
  const Context* context = state().find_context(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *version = context->api_version;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  WITH_CONTEXT();
  if (least != nullptr) *least = device().least_priority;
  if (greatest != nullptr) *greatest = device().greatest_priority;
  return CUDA_SUCCESS;
}
