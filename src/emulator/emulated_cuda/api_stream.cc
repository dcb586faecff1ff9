// Streams, events and work of the host within streams.
#include <algorithm>

#include "emulator/emulated_cuda/api.h"
#include "emulator/emulated_cuda/events.h"

using namespace lambent::emulated_cuda;

namespace {

CUresult create_stream(CUstream* out, unsigned flags, int priority) {
  WITH_CONTEXT();
  if (!out || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  priority = std::max(-5, std::min(0, priority));
  auto stream =
      std::make_shared<Stream>(context.get(), flags, priority, process->next_id++, *process->holds);
  {
    const lambent::MutexLock lock(context->order);
    std::erase_if(context->streams, [](const auto& weak) { return weak.expired(); });
    context->streams.push_back(stream);
  }
  *out = reinterpret_cast<CUstream>(process->streams.insert(std::move(stream)));
  return CUDA_SUCCESS;
}

std::shared_ptr<Event> find_event(Process& process, CUevent handle) {
  return handle ? process.events.find(handle) : nullptr;
}

CUresult record(CUevent handle, CUstream stream_handle, unsigned flags) {
  WITH_STREAM(stream_handle);
  auto event = find_event(*process, handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (!same_root(*process, event->context, stream->context)) return CUDA_ERROR_INVALID_HANDLE;
  return enqueue(*process, context, stream,
                 EventRecord{std::move(event), flags == CU_EVENT_RECORD_EXTERNAL});
}

// What went wrong in the context of an event.
CUresult error_of(Process& process, const Event& event) {
  auto context = process.contexts.find(event.context);
  return context ? process.health_of(*context) : CUDA_SUCCESS;
}

CUresult check_readable(Process& process, const Event& event) {
  if (CUresult result = refuse_if_captured(process, event)) return result;
  return error_of(process, event);
}

}  // namespace

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  return create_stream(stream, flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int priority) {
  return create_stream(stream, flags, priority);
}

CUresult cuStreamDestroy_v2(CUstream handle) {
  WITH_PROCESS();
  auto stream = process->streams.find(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!process->contexts.find(stream->context)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (stream->capturing) abandon_capture(*process, stream);
  if (!process->streams.remove(handle)) return CUDA_ERROR_INVALID_HANDLE;
  stream->close();
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  WITH_STREAM(handle);
  if (CUresult result = refuse_if_capturing(*process, *context, *stream)) return result;
  if (!stream->is_legacy()) {
    stream->wait();
    process->pools.observe();
    return process->health_of(*context);
  }
  // Whatever the legacy stream would have to wait for.
  CompletionPtr end;
  if (CUresult result = enqueue(*process, context, stream, Empty{}, &end)) return result;
  end->wait();
  process->pools.observe();
  return process->health_of(*context);
}

CUresult cuStreamQuery(CUstream handle) {
  WITH_STREAM(handle);
  if (CUresult result = refuse_if_capturing(*process, *context, *stream)) return result;
  if (!stream->idle()) return CUDA_ERROR_NOT_READY;
  if (!stream->is_legacy()) return CUDA_SUCCESS;
  const lambent::MutexLock lock(context->order);
  for (const auto& weak : context->streams) {
    auto other = weak.lock();
    bool blocking = other && !(other->flags & CU_STREAM_NON_BLOCKING);
    if (blocking && !other->idle()) return CUDA_ERROR_NOT_READY;
  }
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned int flags) {
  WITH_STREAM(handle);
  auto event = find_event(*process, event_handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
  return enqueue(*process, context, stream,
                 EventWait{std::move(event), flags == CU_EVENT_WAIT_EXTERNAL});
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* user_data) {
  WITH_STREAM(handle);
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  return enqueue(*process, context, stream, HostCall{function, user_data});
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* user_data,
                             unsigned int flags) {
  WITH_STREAM(handle);
  if (!callback || flags) return CUDA_ERROR_INVALID_VALUE;
  return enqueue(*process, context, stream, StreamCallback{callback, handle, user_data});
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  WITH_STREAM(handle);
  if (!priority) return CUDA_ERROR_INVALID_VALUE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int* flags) {
  WITH_STREAM(handle);
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* out) {
  WITH_STREAM(handle);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = static_cast<CUcontext>(stream->context);
  return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  WITH_STREAM(handle);
  if (!id) return CUDA_ERROR_INVALID_VALUE;
  *id = stream->id;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  WITH_STREAM(handle);
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = context->ordinal;
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* out, unsigned int flags) {
  WITH_CONTEXT();
  if (!out || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  std::unique_ptr<InterprocessEvent> shared;
  if (flags & CU_EVENT_INTERPROCESS) {
    if (!(flags & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_VALUE;
    shared = InterprocessEvent::create();
    if (!shared) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  auto event = std::make_shared<Event>(context.get(), flags, std::move(shared));
  *out = reinterpret_cast<CUevent>(process->events.insert(std::move(event)));
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent handle) {
  WITH_PROCESS();
  return process->events.remove(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventRecord(CUevent event, CUstream stream) { return record(event, stream, 0); }

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
  return record(event, stream, flags);
}

CUresult cuEventQuery(CUevent handle) {
  WITH_PROCESS();
  auto event = find_event(*process, handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult result = check_readable(*process, *event)) return result;
  if (!is_reached(*process, *event)) return CUDA_ERROR_NOT_READY;
  return error_of(*process, *event);  // reached, too, because all that was queued was given up
}

CUresult cuEventSynchronize(CUevent handle) {
  WITH_PROCESS();
  auto event = find_event(*process, handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult result = check_readable(*process, *event)) return result;
  wait_until_reached(*process, *event);
  process->pools.observe();
  return error_of(*process, *event);
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  WITH_PROCESS();
  auto first = find_event(*process, start), second = find_event(*process, end);
  if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
  if (!first || !second) return CUDA_ERROR_INVALID_HANDLE;
  if ((first->flags | second->flags) & CU_EVENT_DISABLE_TIMING) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult result = check_readable(*process, *first)) return result;
  if (CUresult result = check_readable(*process, *second)) return result;
  CompletionPtr from = first->recorded(), to = second->recorded();
  if (!from || !to) return CUDA_ERROR_INVALID_HANDLE;
  if (!from->done() || !to->done()) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>((to->finish_ns() - from->finish_ns()) * 1e-6);
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}
