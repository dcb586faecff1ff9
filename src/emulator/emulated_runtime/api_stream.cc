// Streams, events and calls of the host in stream order.
#include "emulator/emulated_runtime/api.h"

using namespace lambent::emulated_runtime;

RUNTIME_API cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  WITH_CONTEXT();
  return record(cu.stream_create_with_priority(stream, flags, priority));
}

RUNTIME_API cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

RUNTIME_API cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}

RUNTIME_API cudaStreamDestroy(cudaStream_t stream) {
  WITH_CONTEXT();
  return record(cu.stream_destroy(stream));
}

RUNTIME_API cudaStreamSynchronize(cudaStream_t stream) {
  WITH_CONTEXT();
  return record(cu.stream_synchronize(stream));
}

RUNTIME_API cudaStreamQuery(cudaStream_t stream) {
  WITH_CONTEXT();
  return record(cu.stream_query(stream));
}

RUNTIME_API cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  WITH_CONTEXT();
  return record(cu.stream_wait_event(stream, event, flags));
}

// Codes of the driver and of the runtime have the same values, so one callback serves both.
RUNTIME_API cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                  void* user_data, unsigned int flags) {
  WITH_CONTEXT();
  return record(cu.stream_add_callback(stream, reinterpret_cast<CUstreamCallback>(callback),
                                       user_data, flags));
}

RUNTIME_API cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* user_data) {
  WITH_CONTEXT();
  return record(cu.launch_host_func(stream, function, user_data));
}

RUNTIME_API cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  WITH_CONTEXT();
  return record(cu.stream_get_priority(stream, priority));
}

RUNTIME_API cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags) {
  WITH_CONTEXT();
  return record(cu.stream_get_flags(stream, flags));
}

RUNTIME_API cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  WITH_CONTEXT();
  return record(cu.stream_get_id(stream, id));
}

RUNTIME_API cudaStreamGetDevice(cudaStream_t stream, int* device) {
  WITH_CONTEXT();
  return record(cu.stream_get_device(stream, device));
}

RUNTIME_API cudaStreamIsCapturing(cudaStream_t stream, CUstreamCaptureStatus* status) {
  WITH_CONTEXT();
  return record(cu.stream_is_capturing(stream, status));
}

RUNTIME_API cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  WITH_CONTEXT();
  return record(cu.event_create(event, flags));
}

RUNTIME_API cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

RUNTIME_API cudaEventDestroy(cudaEvent_t event) {
  WITH_CONTEXT();
  return record(cu.event_destroy(event));
}

RUNTIME_API cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  WITH_CONTEXT();
  return record(cu.event_record(event, stream));
}

RUNTIME_API cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  WITH_CONTEXT();
  return record(cu.event_record_with_flags(event, stream, flags));
}

RUNTIME_API cudaEventQuery(cudaEvent_t event) {
  WITH_CONTEXT();
  return record(cu.event_query(event));
}

RUNTIME_API cudaEventSynchronize(cudaEvent_t event) {
  WITH_CONTEXT();
  return record(cu.event_synchronize(event));
}

RUNTIME_API cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  WITH_CONTEXT();
  return record(cu.event_elapsed_time_v2(milliseconds, begin, end));
}

FORWARD(cudaStreamGetAttribute, stream_get_attribute,
        (cudaStream_t stream, CUstreamAttrID attribute, CUstreamAttrValue* value),
        (stream, attribute, value))
FORWARD(cudaStreamSetAttribute, stream_set_attribute,
        (cudaStream_t stream, CUstreamAttrID attribute, const CUstreamAttrValue* value),
        (stream, attribute, value))
FORWARD(cudaStreamCopyAttributes, stream_copy_attributes, (cudaStream_t to, cudaStream_t from),
        (to, from))
