// Streams, events, and what queues host functions.
#include <bit>

#include "gpu/forward_client/api.h"
#include "gpu/forward_client/captures.h"
#include "gpu/forward_client/host_calls.h"

using namespace lambent::forward_client;

namespace {

CUresult capture(CapturePoint& point, const HostCall& call) REQUIRES(state_mutex) {
  if (call.callback != nullptr) return invalidate(point, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraphNodeParams what{};
  what.type = CU_GRAPH_NODE_TYPE_HOST;
  what.host = {call.function, call.user_data};
  return capture_node(point, what);
}

// An event that a graph's node speaks of, rather than a point of the capture.
CUresult capture_event(CapturePoint& point, CUgraphNodeType type, CUevent event)
    REQUIRES(state_mutex) {
  CUgraphNodeParams what{};
  what.type = type;
  what.eventWait.event = event;
  return capture_node(point, what);
}

CUresult refuse_in_capture(uint64_t stream) {
  if (!captures_are_open()) return CUDA_SUCCESS;
  WITH_CONTEXT();
  return refuse_if_capturing(stream, *context);
}

CUresult find_event_to_ask(CUevent event) {
  WITH_CONTEXT();
  if (state().events.find(number_of(event)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return refuse_if_captured(number_of(event));
}

CUresult queue(const HostCall& call) {
  uint64_t number = 0, token = 0;
  if (const CUresult result = resolve_stream(call.stream, &number)) return result;
  {
    WITH_CONTEXT();
    CapturePoint* point = nullptr;
    if (const CUresult result = find_point(number, *context, &point)) return result;
    if (point != nullptr) return capture(*point, call);
    token = ++state().last_token;
    if (!start_host_calls() || !state().host_calls.add(token, call))
      return CUDA_ERROR_OUT_OF_MEMORY;
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
    abandon_capture(number_of(stream));
    state().streams.erase(number_of(stream));
  }
  return send(make_call(CallCode::kDestroyStream, number_of(stream)));
}

CUresult cuStreamSynchronize(CUstream stream) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  if (const CUresult result = refuse_in_capture(number)) return result;
  return ask(make_call(CallCode::kSynchronizeStream, number));
}

CUresult cuStreamQuery(CUstream stream) {
  uint64_t number = 0;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  if (const CUresult result = refuse_in_capture(number)) return result;
  return ask(make_call(CallCode::kQueryStream, number));
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  uint64_t number = 0;
  if (flags > CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  {
    WITH_CONTEXT();
    if (state().events.find(number_of(event)) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    CapturePoint* point = nullptr;
    if (const CUresult result = find_point(number, *context, &point)) return result;
    if (point != nullptr && flags == CU_EVENT_WAIT_EXTERNAL) {
      return capture_event(*point, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
    }
    if (point != nullptr) return wait_in_capture(*point, number_of(event));
    CapturePoint* recorded = captured_point_of(number_of(event));
    if (recorded != nullptr) return join_capture(number, *context, *recorded);
  }
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
    forget_captured_event(number_of(event));
    state().events.erase(number_of(event));
  }
  return send(make_call(CallCode::kDestroyEvent, number_of(event)));
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  uint64_t number = 0;
  if (flags > CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = resolve_stream(stream, &number)) return result;
  {
    WITH_CONTEXT();
    EventRecord* found = state().events.find(number_of(event));
    if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const StreamRecord* of_stream = state().streams.find(number);
    if (of_stream != nullptr && of_stream->context != found->context) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    CapturePoint* point = nullptr;
    if (const CUresult result = find_point(number, *context, &point)) return result;
    if (point != nullptr && flags == CU_EVENT_RECORD_EXTERNAL) {
      return capture_event(*point, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
    }
    if (point != nullptr) return record_in_capture(*point, number_of(event));
    forget_captured_event(number_of(event));
    found->recorded = true;
  }
  return send(make_call(CallCode::kRecordEvent, number_of(event), number));
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_DEFAULT);
}

CUresult cuEventQuery(CUevent event) {
  if (const CUresult result = find_event_to_ask(event)) return result;
  return ask(make_call(CallCode::kQueryEvent, number_of(event)));
}

CUresult cuEventSynchronize(CUevent event) {
  if (const CUresult result = find_event_to_ask(event)) return result;
  return ask(make_call(CallCode::kSynchronizeEvent, number_of(event)));
}

CUresult cuEventElapsedTime(float* elapsed_ms, CUevent begin, CUevent end) {
  if (elapsed_ms == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = find_event_to_ask(begin)) return result;
  if (const CUresult result = find_event_to_ask(end)) return result;
  uint64_t bits = 0;
  const CUresult result =
      ask(make_call(CallCode::kElapsedTime, number_of(begin), number_of(end)), &bits, 1);
  *elapsed_ms = std::bit_cast<float>(static_cast<uint32_t>(bits));
  return result;
}

CUresult cuEventElapsedTime_v2(float* elapsed_ms, CUevent begin, CUevent end) {
  return cuEventElapsedTime(elapsed_ms, begin, end);
}
