// The part of Residency that follows streams: memory that is allocated and freed in their order. It
// is there at once, and leaves when the stream has got to the free; the same stream may have it
// again before that.
#include "driver_slots.h"
#include "gpu/shim/captures.h"
#include "gpu/shim/driver_mapping.h"
#include "gpu/shim/locked.h"
#include "gpu/shim/residency.h"

namespace lambent::shim {
namespace {

using device_memory::Allocation;
using device_memory::Allocations;
using device_memory::Block;

constexpr unsigned kEventWithoutTime = 2;  // CU_EVENT_DISABLE_TIMING
// Handles up to this one name the streams that every context has.
constexpr uintptr_t kLastDefaultStream = 2;

// The context of the stream; null: the current one, or the driver does not say.
Handle context_of(const Stream& stream) {
  Handle context = nullptr;
  if (reinterpret_cast<uintptr_t>(stream.handle) <= kLastDefaultStream) return nullptr;
  REAL(cuStreamGetCtx, Handle, Handle*)(stream.handle, &context);
  return context;
}

// An event behind all that is in the stream. The stream's context is current.
Status record_event(const Stream& stream, Handle* event) {
  Status status = REAL(cuEventCreate, Handle*, unsigned)(event, kEventWithoutTime);
  if (status != kSuccess) return status;
  status = stream.per_thread ? REAL(cuEventRecord_ptsz, Handle, Handle)(*event, stream.handle)
                             : REAL(cuEventRecord, Handle, Handle)(*event, stream.handle);
  if (status != kSuccess) REAL(cuEventDestroy_v2, Handle)(*event);
  return status;
}

// An error means that its context is broken or gone: nothing runs there.
bool is_reached(const PendingFree& freed) {
  return REAL(cuEventQuery, Handle)(freed.event) != kNotReady;
}

Status wait_for_event(const Stream& stream, Handle event) {
  return stream.per_thread
             ? REAL(cuStreamWaitEvent_ptsz, Handle, Handle, unsigned)(stream.handle, event, 0)
             : REAL(cuStreamWaitEvent, Handle, Handle, unsigned)(stream.handle, event, 0);
}

// The first from `from` on that waits for the context, or for any, to come to rest.
size_t next_deferred(const PendingFrees& pending, size_t from, Handle context, bool any) {
  while (from < pending.size() &&
         (pending[from].event != nullptr || (!any && pending[from].context != context))) {
    ++from;
  }
  return from;
}

}  // namespace

Status Residency::allocate_in_stream(Address* address, uint64_t bytes, Handle pool,
                                     const Stream& stream) {
  if (current_context() == nullptr) return kAskDriver;
  const InContext inside(context_of(stream));
  Allocation wanted;
  wanted.bytes = bytes;
  wanted.context = current_context();
  if (REAL(cuCtxGetDevice, Device*)(&wanted.owner.device) != kSuccess) return kAskDriver;
  if (pool == nullptr) {
    const auto pool_of = REAL(cuDeviceGetMemPool, Handle*, Device);
    if (pool_of(&pool, wanted.owner.device) != kSuccess) return kAskDriver;
  }
  const Device stream_device = wanted.owner.device;
  if (!device_of_pool(pool, &wanted.owner.device)) return kAskDriver;
  wanted.pool = pool;
  if (is_managed()) wanted.owner.context = wanted.context;  // it does not outlive that
  // Work in a context of another device reaches the pool only if it was let in.
  const Handle context = wanted.owner.device == stream_device ? wanted.context : nullptr;
  if (!reuse_pending(&wanted, stream)) {
    const Status status = place(&wanted, context);
    if (status != kSuccess) return status;
  }
  *address = wanted.base;
  return kSuccess;
}

// What the same stream has freed it may have again at once, others what has been reached; nothing
// is given back to the driver for that, which may wait for all streams when it takes memory away.
// The wait says nothing new to a stream that is the same, and all that is needed to one that got
// the handle of a destroyed one.
bool Residency::reuse_pending(Allocation* allocation, const Stream& stream) {
  const bool may_ask = !is_anything_captured();
  PendingFree chosen;
  {
    Locked lock(mutex_);
    const uint64_t room = room_for(allocation->bytes);
    for (size_t i = 0; i < pending_.size() && chosen.base == 0; ++i) {
      const PendingFree& freed = pending_[i];
      if (freed.event == nullptr || freed.room != room) continue;
      const Allocation* leaving = allocations_.leaving_at(freed.base);
      if (leaving == nullptr || !(leaving->owner == allocation->owner)) continue;
      if (freed.stream == stream || (may_ask && is_reached(freed))) chosen = pending_.take(i);
    }
  }
  if (chosen.base == 0) return false;
  const bool waits = wait_for_event(stream, chosen.event) == kSuccess;
  Locked lock(mutex_);
  if (!waits) {
    pending_.add(chosen);
    return false;
  }
  REAL(cuEventDestroy_v2, Handle)(chosen.event);
  allocation->base = chosen.base;
  return allocations_.revive(allocation);
}

Status Residency::deallocate_in_stream(Address address, const Stream& stream) {
  if (current_context() == nullptr) return kAskDriver;
  PendingFree freed;
  {
    Locked lock(mutex_);
    Allocation* found = allocations_.at(address);
    if (found == nullptr || !pending_.prepare()) return kAskDriver;
    found->is_leaving = true;
    freed.base = found->base;
    freed.number = found->number;
    freed.room = room_for(found->bytes);
  }
  const InContext inside(context_of(stream));
  freed.context = current_context();
  freed.stream = stream;
  const Status status = record_event(stream, &freed.event);
  {
    Locked lock(mutex_);
    if (status == kSuccess && pending_.add(freed)) return kSuccess;
    Allocation* kept = allocations_.leaving_at(address);
    if (kept != nullptr) kept->is_leaving = status == kSuccess;
  }
  if (status != kSuccess) return status;
  // There is no memory to remember it: then now.
  REAL(cuEventSynchronize, Handle)(freed.event);
  REAL(cuEventDestroy_v2, Handle)(freed.event);
  finish_free(freed);
  return kSuccess;
}

// From the oldest on.
// Questions about events, too, may spoil a capture.
void Residency::reclaim_pending(bool wait) {
  {
    Locked lock(mutex_);
    if (pending_.size() == 0) return;
  }
  if (is_anything_captured()) return;
  for (size_t i = 0;;) {
    PendingFree freed;
    {
      Locked lock(mutex_);
      while (i < pending_.size() && pending_[i].event == nullptr) ++i;
      if (i >= pending_.size()) return;
      if (!wait && !is_reached(pending_[i])) {
        ++i;
        continue;
      }
      freed = pending_.take(i);
    }
    if (wait) REAL(cuEventSynchronize, Handle)(freed.event);
    REAL(cuEventDestroy_v2, Handle)(freed.event);
    finish_free(freed);
  }
}

void Residency::reclaim_deferred(Handle context, bool any) {
  for (size_t i = 0;;) {
    PendingFree freed;
    {
      Locked lock(mutex_);
      i = next_deferred(pending_, i, context, any);
      if (i >= pending_.size()) return;
      freed = pending_.take(i);
    }
    finish_free(freed);
  }
}

// The events went with the context, and so did whatever was to be waited for.
void Residency::forget_pending_of(Handle context) {
  for (size_t i = 0;;) {
    PendingFree freed;
    {
      Locked lock(mutex_);
      while (i < pending_.size() && pending_[i].context != context) ++i;
      if (i >= pending_.size()) return;
      freed = pending_.take(i);
    }
    finish_free(freed);
  }
}

void Residency::pool_is_made(Handle pool, Device device) {
  Locked lock(mutex_);
  for (Pool& known : pools_) {
    if (known.pool != nullptr) continue;
    known = {pool, device};
    return;
  }
}

void Residency::pool_is_gone(Handle pool) {
  Locked lock(mutex_);
  for (Pool& known : pools_) {
    if (known.pool == pool) known.pool = nullptr;
  }
}

bool Residency::device_of_pool(Handle pool, Device* device) {
  {
    Locked lock(mutex_);
    for (const Pool& known : pools_) {
      if (known.pool != pool) continue;
      *device = known.device;
      return true;
    }
  }
  int devices = 0;
  REAL(cuDeviceGetCount, int*)(&devices);
  for (Device candidate = 0; candidate < devices; ++candidate) {
    Handle own = nullptr;
    const auto ask = REAL(cuDeviceGetDefaultMemPool, Handle*, Device);
    if (ask(&own, candidate) != kSuccess || own != pool) continue;
    *device = candidate;
    return true;
  }
  return false;
}

}  // namespace lambent::shim
