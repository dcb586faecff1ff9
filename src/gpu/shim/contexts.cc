#include "gpu/shim/contexts.h"

#include <pthread.h>

#include "core/base/plain_mutex.h"
#include "driver_slots.h"
#include "gpu/shim/captures.h"
#include "gpu/shim/driver_mapping.h"

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

// Copies the known contexts, and returns how many.
int copy_known(Handle* into) {
  const PlainLock lock(mutex);
  for (int i = 0; i < context_count; ++i) into[i] = contexts[i];
  return context_count;
}

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
  const int count = copy_known(known);
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

void wait_for_other_users(Device device, Handle except) {
  // A program that frees another device's memory may have copied it by way of the host.
  Handle current = nullptr;
  if (REAL(cuCtxGetCurrent, Handle*)(&current) == kSuccess && current != nullptr &&
      current != except) {
    REAL(cuCtxSynchronize)();
  }
  Handle known[kMostContexts];
  const int count = copy_known(known);
  const auto wait_for = [&](Handle context) {
    if (context == nullptr || context == except || context == current) return;
    const InContext inside(context);
    Device its = -1;
    if (REAL(cuCtxGetDevice, Device*)(&its) != kSuccess) return;
    if (its == device || is_let_in(device, its)) REAL(cuCtxSynchronize)();
  };
  for (int i = 0; i < count; ++i) wait_for(known[i]);
  int devices = 0;
  REAL(cuDeviceGetCount, int*)(&devices);
  for (Device each = 0; each < devices; ++each) {
    if (each == device || is_let_in(device, each)) wait_for(active_primary_context(each));
  }
}

Handle context_of(const Stream& stream) {
  Handle context = nullptr;
  if (reinterpret_cast<uintptr_t>(stream.handle) <= kLastDefaultStream) return nullptr;
  REAL(cuStreamGetCtx, Handle, Handle*)(stream.handle, &context);
  return context;
}

}  // namespace lambent::shim
