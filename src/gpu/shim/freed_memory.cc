#include "gpu/shim/freed_memory.h"

#include "driver_slots.h"
#include "gpu/shim/captures.h"
#include "gpu/shim/contexts.h"
#include "gpu/shim/driver_mapping.h"

namespace lambent::shim {
namespace {

using device_memory::Allocation;
using device_memory::Block;

// What streams have freed waits for others of its size; with more than so many waiting, what has
// been reached goes back to the driver.
constexpr size_t kMostIdleFrees = 64;
constexpr unsigned kEventWithoutTime = 2;  // CU_EVENT_DISABLE_TIMING
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

// As the driver does, waits for work that may still use the memory.
Status FreedMemory::deallocate(Address address) {
  PendingFree freed;
  freed.context = current_context();
  if (freed.context == nullptr) return kAskDriver;
  Device device = 0;
  {
    auto table = table_.hold();
    Allocation* found = table->allocations.at(address);
    if (found == nullptr || !pending_.prepare()) return kAskDriver;
    found->is_leaving = true;
    freed.base = found->base;
    freed.number = found->number;
    freed.room = room_for(found->bytes);
    if (found->owner.context != nullptr) freed.context = found->owner.context;
    device = found->owner.device;
  }
  if (is_anything_captured()) {
    auto table = table_.hold();
    if (pending_.add(freed)) return kSuccess;
  }
  const Status status = wait_for_context(freed.context);
  if (status != kSuccess) {
    auto table = table_.hold();
    if (Allocation* kept = table->allocations.leaving_at(address); kept != nullptr) {
      kept->is_leaving = false;
    }
    return status;
  }
  wait_for_other_users(device, freed.context);
  finish(freed);
  reclaim_deferred(freed.context, false);
  reclaim(false);
  return kSuccess;
}

// What the same stream has freed it may have again at once, others what has been reached; nothing
// is given back to the driver for that, which may wait for all streams when it takes memory away.
// The wait says nothing new to a stream that is the same, and all that is needed to one that got
// the handle of a destroyed one.
bool FreedMemory::reuse(Allocation* allocation, const Stream& stream) {
  const bool may_ask = !is_anything_captured();
  PendingFree chosen;
  {
    auto table = table_.hold();
    const uint64_t room = room_for(allocation->bytes);
    for (size_t i = 0; i < pending_.size() && chosen.base == 0; ++i) {
      const PendingFree& freed = pending_[i];
      if (freed.event == nullptr || freed.room != room) continue;
      const Allocation* leaving = table->allocations.leaving_at(freed.base);
      if (leaving == nullptr || !(leaving->owner == allocation->owner)) continue;
      if (freed.stream == stream || (may_ask && is_reached(freed))) chosen = pending_.take(i);
    }
  }
  if (chosen.base == 0) return false;
  const bool waits = wait_for_event(stream, chosen.event) == kSuccess;
  auto table = table_.hold();
  if (!waits) {
    pending_.add(chosen);
    return false;
  }
  REAL(cuEventDestroy_v2, Handle)(chosen.event);
  allocation->base = chosen.base;
  return table->allocations.revive(allocation);
}

Status FreedMemory::deallocate_in_stream(Address address, const Stream& stream) {
  if (current_context() == nullptr) return kAskDriver;
  PendingFree freed;
  {
    auto table = table_.hold();
    Allocation* found = table->allocations.at(address);
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
    auto table = table_.hold();
    if (status == kSuccess && pending_.add(freed)) return kSuccess;
    Allocation* kept = table->allocations.leaving_at(address);
    if (kept != nullptr) kept->is_leaving = status == kSuccess;
  }
  if (status != kSuccess) return status;
  // There is no memory to remember it: then now.
  REAL(cuEventSynchronize, Handle)(freed.event);
  REAL(cuEventDestroy_v2, Handle)(freed.event);
  finish(freed);
  return kSuccess;
}

bool FreedMemory::is_long() {
  auto table = table_.hold();
  return pending_.size() > kMostIdleFrees;
}

// From the oldest on.
// Questions about events, too, may spoil a capture.
void FreedMemory::reclaim(bool wait) {
  {
    auto table = table_.hold();
    if (pending_.size() == 0) return;
  }
  if (is_anything_captured()) return;
  for (size_t i = 0;;) {
    PendingFree freed;
    {
      auto table = table_.hold();
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
    finish(freed);
  }
}

void FreedMemory::reclaim_deferred(Handle context, bool any) {
  for (size_t i = 0;;) {
    PendingFree freed;
    {
      auto table = table_.hold();
      i = next_deferred(pending_, i, context, any);
      if (i >= pending_.size()) return;
      freed = pending_.take(i);
    }
    finish(freed);
  }
}

// The events went with the context, and so did whatever was to be waited for.
void FreedMemory::forget_all_of(Handle context) {
  for (size_t i = 0;;) {
    PendingFree freed;
    {
      auto table = table_.hold();
      while (i < pending_.size() && pending_[i].context != context) ++i;
      if (i >= pending_.size()) return;
      freed = pending_.take(i);
    }
    finish(freed);
  }
}

void FreedMemory::hand_over(GuardedMemory::Held&, Handle context, Handle heir) {
  pending_.hand_over(context, heir);
}

void FreedMemory::finish(const PendingFree& freed) {
  Block gone;
  {
    auto table = table_.hold();
    Allocation* allocation = table->allocations.leaving_at(freed.base);
    if (allocation == nullptr || allocation->number != freed.number) return;
    if (!table->allocations.remove(allocation, &gone)) return;
  }
  maker_.dispose_of(gone);
}

}  // namespace lambent::shim
