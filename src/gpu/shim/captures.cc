#include "gpu/shim/captures.h"

#include <pthread.h>
#include <time.h>

#include "core/base/plain_mutex.h"
#include "driver_slots.h"
#include "gpu/shim/gate.h"
#include "gpu/shim/pending_frees.h"
#include "gpu/shim/touches.h"

namespace lambent::shim {
namespace {

// More at a time than programs have; those beyond are not remembered.
constexpr int kMostStreams = 64;

PlainMutex mutex;
Stream streams[kMostStreams] GUARDED_BY(mutex);
// In which to ask about each: the thread that asks may have none.
Handle contexts[kMostStreams] GUARDED_BY(mutex);
int stream_count GUARDED_BY(mutex) = 0;

bool fork_is_watched = false;

// A thread that the child does not have may have held the mutex.
void start_afresh_in_child() {
  mutex.free_in_child();
  const PlainLock lock(mutex);
  stream_count = 0;
}

void begins(const Stream& stream) {
  if (!__atomic_exchange_n(&fork_is_watched, true, __ATOMIC_ACQ_REL)) {
    pthread_atfork(nullptr, nullptr, start_afresh_in_child);
  }
  const Handle context = current_context();
  const PlainLock lock(mutex);
  if (stream_count == kMostStreams) return;
  contexts[stream_count] = context;
  streams[stream_count++] = stream;
}

void forget(int index) REQUIRES(mutex) {
  --stream_count;
  streams[index] = streams[stream_count];
  contexts[index] = contexts[stream_count];
}

void ends(const Stream& stream) {
  const PlainLock lock(mutex);
  for (int i = 0; i < stream_count; ++i) {
    if (streams[i] == stream) forget(i--);
  }
}

bool is_captured(const Stream& stream) {
  int status = 0;
  const unsigned slot =
      stream.per_thread ? kSlot_cuStreamIsCapturing_ptsz : kSlot_cuStreamIsCapturing;
  return real<Status (*)(Handle, int*)>(slot)(stream.handle, &status) == kSuccess && status != 0;
}

// A capture that began while memory moves would be spoilt by the move.
template <typename Call>
Status begin(const Stream& stream, Call call) {
  const GateScope gate_scope;
  InsideHook inside;
  const Status status = call();
  if (status == kSuccess && inside.outermost()) begins(stream);
  return status;
}

// Into a graph that exists, which may be the body of a conditional node: that one cannot be looked
// through when it is made ready, and while it is captured nothing can be fetched.
template <typename Call>
Status begin_into_graph(const Stream& stream, Call call) {
  const GateScope gate_scope;
  if (notes_touches()) place_everything();
  return begin(stream, call);
}

// It may fail and leave the capture as it is, as on the wrong thread.
template <typename Call>
Status end(const Stream& stream, Call call) {
  const GateScope gate_scope;
  InsideHook inside;
  const Status status = call();
  if (!is_captured(stream)) ends(stream);
  return status;
}

}  // namespace

// A stream that is forgotten here while it is captured would be one that belongs to another
// thread's view of the same handle; then waiting spoils a capture that waiting would spoil anyway.
bool is_anything_captured() {
  const PlainLock lock(mutex);
  for (int i = 0; i < stream_count; ++i) {
    const InContext inside(contexts[i]);
    if (is_captured(streams[i])) return true;
    forget(i--);
  }
  return false;
}

Status wait_for_context(Handle context) {
  if (context == nullptr) return kSuccess;
  InContext inside(context);
  return REAL(cuCtxSynchronize)();
}

// An event behind all work of the context, looked at again and again.
Status wait_for_context(Handle context, uint64_t grace_period_ns) {
  constexpr unsigned kDisableTiming = 2;
  constexpr uint64_t kLongestPauseNs = 1'000'000;
  if (context == nullptr) return kSuccess;
  InContext inside(context);
  Handle event = nullptr;
  if (REAL(cuEventCreate, Handle*, unsigned)(&event, kDisableTiming) != kSuccess) {
    return REAL(cuCtxSynchronize)();
  }
  Status status = REAL(cuCtxRecordEvent, Handle, Handle)(context, event);
  if (status != kSuccess) {
    REAL(cuEventDestroy_v2, Handle)(event);
    return REAL(cuCtxSynchronize)();
  }
  uint64_t waited_ns = 0;
  for (uint64_t pause_ns = 10'000;;
       pause_ns = pause_ns * 2 < kLongestPauseNs ? pause_ns * 2 : kLongestPauseNs) {
    status = REAL(cuEventQuery, Handle)(event);
    if (status != kNotReady || waited_ns >= grace_period_ns) break;
    const timespec pause = {0, static_cast<long>(pause_ns)};
    nanosleep(&pause, nullptr);
    waited_ns += pause_ns;
  }
  REAL(cuEventDestroy_v2, Handle)(event);
  return status;
}

InContext::InContext(Handle context) {
  pushed_ = context != nullptr && REAL(cuCtxPushCurrent_v2, Handle)(context) == kSuccess;
}

InContext::~InContext() {
  Handle popped = nullptr;
  if (pushed_) REAL(cuCtxPopCurrent_v2, Handle*)(&popped);
}

}  // namespace lambent::shim

using namespace lambent::shim;

SHIM_EXPORT Status cuStreamBeginCapture(Handle stream) {
  return begin({stream, false}, [=] { return REAL(cuStreamBeginCapture, Handle)(stream); });
}

SHIM_EXPORT Status cuStreamBeginCapture_ptsz(Handle stream) {
  return begin({stream, true}, [=] { return REAL(cuStreamBeginCapture_ptsz, Handle)(stream); });
}

SHIM_EXPORT Status cuStreamBeginCapture_v2(Handle stream, int mode) {
  return begin({stream, false},
               [=] { return REAL(cuStreamBeginCapture_v2, Handle, int)(stream, mode); });
}

SHIM_EXPORT Status cuStreamBeginCapture_v2_ptsz(Handle stream, int mode) {
  return begin({stream, true},
               [=] { return REAL(cuStreamBeginCapture_v2_ptsz, Handle, int)(stream, mode); });
}

SHIM_EXPORT Status cuStreamBeginCaptureToGraph(Handle stream, Handle graph, const void* nodes,
                                               const void* edges, size_t count, int mode) {
  return begin_into_graph({stream, false}, [=] {
    return REAL(cuStreamBeginCaptureToGraph, Handle, Handle, const void*, const void*, size_t, int)(
        stream, graph, nodes, edges, count, mode);
  });
}

SHIM_EXPORT Status cuStreamBeginCaptureToGraph_ptsz(Handle stream, Handle graph, const void* nodes,
                                                    const void* edges, size_t count, int mode) {
  return begin_into_graph({stream, true}, [=] {
    return REAL(cuStreamBeginCaptureToGraph_ptsz, Handle, Handle, const void*, const void*, size_t,
                int)(stream, graph, nodes, edges, count, mode);
  });
}

SHIM_EXPORT Status cuStreamEndCapture(Handle stream, Handle* graph) {
  return end({stream, false},
             [=] { return REAL(cuStreamEndCapture, Handle, Handle*)(stream, graph); });
}

SHIM_EXPORT Status cuStreamEndCapture_ptsz(Handle stream, Handle* graph) {
  return end({stream, true},
             [=] { return REAL(cuStreamEndCapture_ptsz, Handle, Handle*)(stream, graph); });
}
