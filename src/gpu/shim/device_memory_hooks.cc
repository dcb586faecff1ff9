// Plain, pitched, managed and stream-ordered device memory.
#include "driver_slots.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/captures.h"
#include "gpu/shim/contexts.h"
#include "gpu/shim/graph_memory.h"
#include "gpu/shim/residency.h"

using namespace lambent::shim;

namespace {

// Old programs use 32-bit addresses; the driver still exports these.
using OldAddress = unsigned int;

constexpr uint64_t kPitchAlignment = 512;
constexpr int kCaptureNone = 0;

// How long a row is on a device that aligns rows as all do today.
uint64_t pitch_of(uint64_t width) {
  if (width > UINT64_MAX - kPitchAlignment) return UINT64_MAX;
  return (width + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
}

// How many bytes a pitched allocation takes.
uint64_t pitched_bytes(uint64_t width, uint64_t height) {
  uint64_t bytes = 0;
  return __builtin_mul_overflow(pitch_of(width), height, &bytes) ? UINT64_MAX : bytes;
}

bool is_ours(Address address) {
  Residency* residency = Residency::current();
  return residency != nullptr && residency->owns(address);
}

// False for a stream that the driver does not know, too: let it say so itself.
bool runs_at_once(const Stream& stream) {
  int status = kCaptureNone;
  const unsigned slot =
      stream.per_thread ? kSlot_cuStreamIsCapturing_ptsz : kSlot_cuStreamIsCapturing;
  const auto ask = real<Status (*)(Handle, int*)>(slot);
  return ask(stream.handle, &status) == kSuccess && status == kCaptureNone;
}

// Memory of ours if it is to be mapped, else the driver's.
template <typename Call>
Status allocate(Address* address, uint64_t bytes, Call plain) {
  Residency* residency = Residency::current();
  if (residency == nullptr || address == nullptr || bytes == 0) return plain();
  const Status status = residency->allocate(address, bytes);
  return status == kAskDriver ? plain() : status;
}

template <typename Call>
Status deallocate(Address address, Call plain) {
  Residency* residency = Residency::current();
  const Status status = residency == nullptr ? kAskDriver : residency->freed().deallocate(address);
  return status == kAskDriver ? plain() : status;
}

// Of a pool that every device has; -1: it is none.
int device_of_own_pool(const Accounting& accounting, Handle pool) {
  for (Device device = 0; device < accounting.devices(); ++device) {
    Handle own = nullptr;
    if (REAL(cuDeviceGetDefaultMemPool, Handle*, Device)(&own, device) == kSuccess && own == pool) {
      return device;
    }
    if (REAL(cuDeviceGetMemPool, Handle*, Device)(&own, device) == kSuccess && own == pool) {
      return device;
    }
  }
  return -1;
}

// Whose memory comes in the order of a stream: its pool's, else its device's.
int device_of(Accounting& accounting, Handle pool, const Stream& stream) {
  if (accounting.devices() == 1) return 0;
  if (pool != nullptr) {
    int device = accounting.device_of_pool(reinterpret_cast<uint64_t>(pool));
    if (device < 0) device = device_of_own_pool(accounting, pool);
    if (device >= 0) return device;
  }
  const InContext inside(context_of(stream));
  return accounting.current_device();
}

// Memory allocated while a graph is captured belongs to the graph, not to this call.
template <typename Call>
Status stream_ordered_allocation(Address* address, size_t bytes, Handle pool, const Stream& stream,
                                 Call plain) {
  {
    InsideHook inside;
    GateScope gate_scope;
    const bool counts = inside.accounting() != nullptr || Residency::current() != nullptr;
    if (!counts) return plain();
    if (!runs_at_once(stream)) {
      graphs_allocate();
      return plain();
    }
  }
  const auto place_of = [=](Accounting& accounting) { return device_of(accounting, pool, stream); };
  return counted_allocation_on(place_of, Kind::kPooled, bytes, address, [=] {
    Residency* residency = Residency::current();
    if (residency == nullptr || address == nullptr || bytes == 0) return plain();
    const Status status = residency->allocate_in_stream(address, bytes, pool, stream);
    return status == kAskDriver ? plain() : status;
  });
}

template <typename Call>
Status stream_ordered_free(Address address, const Stream& stream, Call plain) {
  return counted_free(Kind::kPooled, Kind::kDevice, address, [=] {
    Residency* residency = Residency::current();
    if (residency == nullptr || !runs_at_once(stream)) return plain();
    const Status status = residency->freed().deallocate_in_stream(address, stream);
    return status == kAskDriver ? plain() : status;
  });
}

}  // namespace

SHIM_EXPORT Status cuMemAlloc_v2(Address* address, size_t bytes) {
  return counted_allocation(Kind::kDevice, bytes, address, [=] {
    return allocate(address, bytes,
                    [=] { return REAL(cuMemAlloc_v2, Address*, size_t)(address, bytes); });
  });
}

SHIM_EXPORT Status cuMemAlloc(OldAddress* address, unsigned bytes) {
  return counted_allocation(Kind::kDevice, bytes, address, [=] {
    return REAL(cuMemAlloc, OldAddress*, unsigned)(address, bytes);
  });
}

SHIM_EXPORT Status cuMemAllocPitch_v2(Address* address, size_t* pitch, size_t width, size_t height,
                                      unsigned element) {
  const uint64_t bytes = pitched_bytes(width, height);
  return counted_allocation(Kind::kDevice, bytes, address, [=] {
    const auto plain = [=] {
      return REAL(cuMemAllocPitch_v2, Address*, size_t*, size_t, size_t, unsigned)(
          address, pitch, width, height, element);
    };
    const bool is_sound = element == 4 || element == 8 || element == 16;
    if (pitch == nullptr || !is_sound) return plain();
    const Status status = allocate(address, bytes, plain);
    if (status == kSuccess && is_ours(*address)) *pitch = pitch_of(width);
    return status;
  });
}

SHIM_EXPORT Status cuMemAllocPitch(OldAddress* address, unsigned* pitch, unsigned width,
                                   unsigned height, unsigned element) {
  return counted_allocation(Kind::kDevice, pitched_bytes(width, height), address, [=] {
    return REAL(cuMemAllocPitch, OldAddress*, unsigned*, unsigned, unsigned, unsigned)(
        address, pitch, width, height, element);
  });
}

SHIM_EXPORT Status cuMemAllocManaged(Address* address, size_t bytes, unsigned flags) {
  return counted_allocation(Kind::kDevice, bytes, address, [=] {
    return REAL(cuMemAllocManaged, Address*, size_t, unsigned)(address, bytes, flags);
  });
}

SHIM_EXPORT Status cuMemAllocAsync(Address* address, size_t bytes, Handle stream) {
  return stream_ordered_allocation(address, bytes, nullptr, {stream, false}, [=] {
    return REAL(cuMemAllocAsync, Address*, size_t, Handle)(address, bytes, stream);
  });
}

SHIM_EXPORT Status cuMemAllocAsync_ptsz(Address* address, size_t bytes, Handle stream) {
  return stream_ordered_allocation(address, bytes, nullptr, {stream, true}, [=] {
    return REAL(cuMemAllocAsync_ptsz, Address*, size_t, Handle)(address, bytes, stream);
  });
}

SHIM_EXPORT Status cuMemAllocFromPoolAsync(Address* address, size_t bytes, Handle pool,
                                           Handle stream) {
  const auto plain = [=] {
    return REAL(cuMemAllocFromPoolAsync, Address*, size_t, Handle, Handle)(address, bytes, pool,
                                                                           stream);
  };
  return pool == nullptr ? plain()
                         : stream_ordered_allocation(address, bytes, pool, {stream, false}, plain);
}

SHIM_EXPORT Status cuMemAllocFromPoolAsync_ptsz(Address* address, size_t bytes, Handle pool,
                                                Handle stream) {
  const auto plain = [=] {
    return REAL(cuMemAllocFromPoolAsync_ptsz, Address*, size_t, Handle, Handle)(address, bytes,
                                                                                pool, stream);
  };
  return pool == nullptr ? plain()
                         : stream_ordered_allocation(address, bytes, pool, {stream, true}, plain);
}

// The driver lets either free take either memory.
SHIM_EXPORT Status cuMemFree_v2(Address address) {
  return counted_free(Kind::kDevice, Kind::kPooled, address, [=] {
    return deallocate(address, [=] { return REAL(cuMemFree_v2, Address)(address); });
  });
}

SHIM_EXPORT Status cuMemFree(OldAddress address) {
  return counted_free(Kind::kDevice, Kind::kPooled, address,
                      [=] { return REAL(cuMemFree, OldAddress)(address); });
}

SHIM_EXPORT Status cuMemFreeAsync(Address address, Handle stream) {
  return stream_ordered_free(address, {stream, false}, [=] {
    return REAL(cuMemFreeAsync, Address, Handle)(address, stream);
  });
}

SHIM_EXPORT Status cuMemFreeAsync_ptsz(Address address, Handle stream) {
  return stream_ordered_free(address, {stream, true}, [=] {
    return REAL(cuMemFreeAsync_ptsz, Address, Handle)(address, stream);
  });
}
