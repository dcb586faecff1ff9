// Streams, events, and host functions, which run here, on a thread of their own.
#include <pthread.h>
#include <signal.h>

#include <bit>
#include <cstdlib>

#include "forwarded_cuda/api.h"

using namespace lambent::forwarded_cuda;

namespace {

CUresult find_event(CUevent event) {
  WITH_CONTEXT();
  const bool known = state().events.find(number_of(event)) != nullptr;
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

bool take_host_call(uint64_t token, HostCall* call) {
  const StateLock lock;
  const HostCall* found = state().host_calls.find(token);
  if (found == nullptr) return false;
  *call = *found;
  state().host_calls.erase(token);
  return true;
}

void* run_host_functions(void*) {
  uint64_t token = 0;
  while (ask(make_call(CallCode::kNextHostFunction), &token, 1) == CUDA_SUCCESS) {
    HostCall call;
    if (!take_host_call(token, &call)) continue;
    enter_host_function();
    if (call.function != nullptr) call.function(call.user_data);
    if (call.callback != nullptr) call.callback(call.stream, CUDA_SUCCESS, call.user_data);
    leave_host_function();
    send(make_call(CallCode::kHostFunctionDone, token));
  }
  return nullptr;
}

// Under the lock. The program's signals are not for our thread.
bool start_runner() {
  if (state().has_runner) return true;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, nullptr, run_host_functions, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) return false;
  pthread_detach(thread);
  state().has_runner = true;
  return true;
}

CUresult queue(const HostCall& call) {
  uint64_t number = 0, token = 0;
  if (const CUresult result = resolve_stream(call.stream, &number)) return result;
  {
    const StateLock lock;
    token = ++state().last_token;
    if (!start_runner() || !state().host_calls.add(token, call)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return send(make_call(CallCode::kHostFunction, number, token));
}

}  // namespace

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int priority) {
  uint64_t context_number = 0, number = 0;
  {
    WITH_CONTEXT();
    context_number = context->number;
  }
  if (stream == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  const int least = device().least_priority, greatest = device().greatest_priority;
  if (priority > least) priority = least;
  if (priority < greatest) priority = greatest;
  const Call call = make_call(CallCode::kCreateStream, context_number, flags,
                              static_cast<uint64_t>(static_cast<int64_t>(priority)));
  if (const CUresult result = ask(call, &number, 1)) return result;
  const StateLock lock;
  if (!state().streams.add(number, {context_number, flags, priority, ++state().last_id})) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *stream = handle_for<CUstream>(number);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  {
    WITH_CONTEXT();
    if (state().streams.find(number_of(stream)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    state().streams.erase(number_of(stream));
  }
  return send(make_call(CallCode::kDestroyStream, number_of(stream)));
}

CUresult cuStreamSynchronize(CUstream stream) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  return ask(make_call(CallCode::kSynchronizeStream, number));
}

CUresult cuStreamQuery(CUstream stream) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  return ask(make_call(CallCode::kQueryStream, number));
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  if (const CUresult result = find_event(event)) return result;
  return send(make_call(CallCode::kWaitEvent, number, number_of(event)));
}

CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  WITH_CONTEXT();
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const StreamRecord* found = state().streams.find(number_of(stream));
  *priority = found == nullptr ? 0 : found->priority;
  return found != nullptr || number_of(stream) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuStreamGetFlags(CUstream stream, unsigned int* flags) {
  WITH_CONTEXT();
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const StreamRecord* found = state().streams.find(number_of(stream));
  *flags = found == nullptr ? 0 : found->flags;
  return found != nullptr || number_of(stream) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = number;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext* handle) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  WITH_CONTEXT();
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *handle = handle_of(context);
  return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream stream, CUdevice* device) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = 0;
  return CUDA_SUCCESS;
}

// Capture is not forwarded, so none is under way.
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  static thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUstreamCaptureMode before = current;
  current = *mode;
  *mode = before;
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* user_data) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return queue({function, nullptr, stream, user_data});
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* user_data,
                             unsigned int flags) {
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return queue({nullptr, callback, stream, user_data});
}

CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  uint64_t context_number = 0, number = 0;
  {
    WITH_CONTEXT();
    context_number = context->number;
  }
  constexpr unsigned kInterprocess = CU_EVENT_INTERPROCESS, kUntimed = CU_EVENT_DISABLE_TIMING;
  if (event == nullptr || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & kInterprocess) != 0 && (flags & kUntimed) == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result =
          ask(make_call(CallCode::kCreateEvent, context_number, flags), &number, 1)) {
    return result;
  }
  const StateLock lock;
  if (!state().events.add(number, {context_number, flags, false})) return CUDA_ERROR_OUT_OF_MEMORY;
  *event = handle_for<CUevent>(number);
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event) {
  {
    WITH_CONTEXT();
    if (state().events.find(number_of(event)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    state().events.erase(number_of(event));
  }
  return send(make_call(CallCode::kDestroyEvent, number_of(event)));
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  {
    const StateLock lock;
    EventRecord* found = state().events.find(number_of(event));
    if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const StreamRecord* of_stream = state().streams.find(number);
    if (of_stream != nullptr && of_stream->context != found->context) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    found->recorded = true;
  }
  return send(make_call(CallCode::kRecordEvent, number_of(event), number));
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
  return cuEventRecord(event, stream);
}

CUresult cuEventQuery(CUevent event) {
  if (const CUresult result = find_event(event)) return result;
  return ask(make_call(CallCode::kQueryEvent, number_of(event)));
}

CUresult cuEventSynchronize(CUevent event) {
  if (const CUresult result = find_event(event)) return result;
  return ask(make_call(CallCode::kSynchronizeEvent, number_of(event)));
}

CUresult cuEventElapsedTime(float* elapsed_ms, CUevent begin, CUevent end) {
  if (elapsed_ms == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = find_event(begin)) return result;
  if (const CUresult result = find_event(end)) return result;
  uint64_t bits = 0;
  const CUresult result =
      ask(make_call(CallCode::kElapsedTime, number_of(begin), number_of(end)), &bits, 1);
  *elapsed_ms = std::bit_cast<float>(static_cast<uint32_t>(bits));
  return result;
}

CUresult cuEventElapsedTime_v2(float* elapsed_ms, CUevent begin, CUevent end) {
  return cuEventElapsedTime(elapsed_ms, begin, end);
}
