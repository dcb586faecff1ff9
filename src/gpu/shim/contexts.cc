#include "gpu/shim/contexts.h"

#include <pthread.h>

#include "core/base/plain_mutex.h"
#include "driver_slots.h"
#include "gpu/shim/captures.h"

namespace lambent::shim {
namespace {

// More than programs have; with one more not all are known.
constexpr int kMostContexts = 64;

PlainMutex mutex;
Handle contexts[kMostContexts] GUARDED_BY(mutex);  // primary ones are not among them
int context_count GUARDED_BY(mutex) = 0;
bool some_are_unknown GUARDED_BY(mutex) = false;
bool fork_is_watched = false;

// The driver does not work in a child of a process that used it.
void start_afresh_in_child() {
  mutex.free_in_child();
  const PlainLock lock(mutex);
  context_count = 0;
  some_are_unknown = false;
}

// Handles up to this one name the streams that every context has.
constexpr uintptr_t kLastDefaultStream = 2;

}  // namespace

void context_is_made(Handle context) {
  if (!__atomic_exchange_n(&fork_is_watched, true, __ATOMIC_ACQ_REL)) {
    pthread_atfork(nullptr, nullptr, start_afresh_in_child);
  }
  const PlainLock lock(mutex);
  for (int i = 0; i < context_count; ++i) {
    if (contexts[i] == context) return;
  }
  if (context_count == kMostContexts) {
    some_are_unknown = true;
  } else {
    contexts[context_count++] = context;
  }
}

bool context_is_ended(Handle context) {
  const PlainLock lock(mutex);
  for (int i = 0; i < context_count; ++i) {
    if (contexts[i] != context) continue;
    contexts[i] = contexts[--context_count];
    return true;
  }
  return false;
}

void context_is_made_that_nobody_waits_for() {
  const PlainLock lock(mutex);
  some_are_unknown = true;
}

Handle active_primary_context(Device device) {
  unsigned flags = 0;
  int active = 0;
  const Status status =
      REAL(cuDevicePrimaryCtxGetState, Device, unsigned*, int*)(device, &flags, &active);
  Handle context = nullptr;
  if (status != kSuccess || active == 0) return nullptr;
  // Retaining an active one only counts up.
  if (REAL(cuDevicePrimaryCtxRetain, Handle*, Device)(&context, device) != kSuccess) return nullptr;
  REAL(cuDevicePrimaryCtxRelease_v2, Device)(device);
  return context;
}

bool knows_all_contexts() {
  const PlainLock lock(mutex);
  return !some_are_unknown;
}

Status wait_for_known_contexts(uint64_t grace_period_ns) {
  Handle known[kMostContexts];
  int count = 0;
  {
    const PlainLock lock(mutex);
    for (; count < context_count; ++count) known[count] = contexts[count];
  }
  for (int i = 0; i < count; ++i) {
    const Status status = wait_for_context(known[i], grace_period_ns);
    if (status != kSuccess) return status;
  }
  int devices = 0;
  REAL(cuDeviceGetCount, int*)(&devices);
  for (Device device = 0; device < devices; ++device) {
    const Status status = wait_for_context(active_primary_context(device), grace_period_ns);
    if (status != kSuccess) return status;
  }
  return kSuccess;
}

Handle context_of(const Stream& stream) {
  Handle context = nullptr;
  if (reinterpret_cast<uintptr_t>(stream.handle) <= kLastDefaultStream) return nullptr;
  REAL(cuStreamGetCtx, Handle, Handle*)(stream.handle, &context);
  return context;
}

}  // namespace lambent::shim
