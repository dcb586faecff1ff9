// Plain, pitched, managed and stream-ordered device memory.
#include "driver_slots.h"
#include "shim/abi.h"

using namespace lambent::shim;

namespace {

// Old programs use 32-bit addresses; the driver still exports these.
using OldAddress = unsigned int;

constexpr uint64_t kPitchAlignment = 512;
constexpr int kCaptureActive = 1;

// How many bytes a pitched allocation takes on a device that aligns rows as all do today.
uint64_t pitched_bytes(uint64_t width, uint64_t height) {
  uint64_t bytes = 0;
  if (width > UINT64_MAX - kPitchAlignment) return UINT64_MAX;
  const uint64_t pitch = (width + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
  return __builtin_mul_overflow(pitch, height, &bytes) ? UINT64_MAX : bytes;
}

// Memory allocated while a graph is captured belongs to the graph, not to this call.
bool is_capturing(Handle stream, unsigned slot) {
  int status = 0;
  const auto ask = real<Status (*)(Handle, int*)>(slot);
  return ask(stream, &status) == kSuccess && status == kCaptureActive;
}

template <typename Call>
Status stream_ordered_allocation(Address* address, size_t bytes, Handle stream,
                                 unsigned capture_slot, Call call) {
  {
    InsideHook inside;
    if (inside.accounting() == nullptr || is_capturing(stream, capture_slot)) return call();
  }
  return counted_allocation(Kind::kPooled, bytes, address, call);
}

}  // namespace

SHIM_EXPORT Status cuMemAlloc_v2(Address* address, size_t bytes) {
  return counted_allocation(Kind::kDevice, bytes, address,
                            [=] { return REAL(cuMemAlloc_v2, Address*, size_t)(address, bytes); });
}

SHIM_EXPORT Status cuMemAlloc(OldAddress* address, unsigned bytes) {
  return counted_allocation(Kind::kDevice, bytes, address, [=] {
    return REAL(cuMemAlloc, OldAddress*, unsigned)(address, bytes);
  });
}

SHIM_EXPORT Status cuMemAllocPitch_v2(Address* address, size_t* pitch, size_t width, size_t height,
                                      unsigned element) {
  return counted_allocation(Kind::kDevice, pitched_bytes(width, height), address, [=] {
    return REAL(cuMemAllocPitch_v2, Address*, size_t*, size_t, size_t, unsigned)(
        address, pitch, width, height, element);
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
  return stream_ordered_allocation(address, bytes, stream, kSlot_cuStreamIsCapturing, [=] {
    return REAL(cuMemAllocAsync, Address*, size_t, Handle)(address, bytes, stream);
  });
}

SHIM_EXPORT Status cuMemAllocAsync_ptsz(Address* address, size_t bytes, Handle stream) {
  return stream_ordered_allocation(address, bytes, stream, kSlot_cuStreamIsCapturing_ptsz, [=] {
    return REAL(cuMemAllocAsync_ptsz, Address*, size_t, Handle)(address, bytes, stream);
  });
}

SHIM_EXPORT Status cuMemAllocFromPoolAsync(Address* address, size_t bytes, Handle pool,
                                           Handle stream) {
  return stream_ordered_allocation(address, bytes, stream, kSlot_cuStreamIsCapturing, [=] {
    return REAL(cuMemAllocFromPoolAsync, Address*, size_t, Handle, Handle)(address, bytes, pool,
                                                                           stream);
  });
}

SHIM_EXPORT Status cuMemAllocFromPoolAsync_ptsz(Address* address, size_t bytes, Handle pool,
                                                Handle stream) {
  return stream_ordered_allocation(address, bytes, stream, kSlot_cuStreamIsCapturing_ptsz, [=] {
    return REAL(cuMemAllocFromPoolAsync_ptsz, Address*, size_t, Handle, Handle)(address, bytes,
                                                                                pool, stream);
  });
}

// The driver lets either free take either memory.
SHIM_EXPORT Status cuMemFree_v2(Address address) {
  return counted_free(Kind::kDevice, Kind::kPooled, address,
                      [=] { return REAL(cuMemFree_v2, Address)(address); });
}

SHIM_EXPORT Status cuMemFree(OldAddress address) {
  return counted_free(Kind::kDevice, Kind::kPooled, address,
                      [=] { return REAL(cuMemFree, OldAddress)(address); });
}

SHIM_EXPORT Status cuMemFreeAsync(Address address, Handle stream) {
  return counted_free(Kind::kPooled, Kind::kDevice, address,
                      [=] { return REAL(cuMemFreeAsync, Address, Handle)(address, stream); });
}

SHIM_EXPORT Status cuMemFreeAsync_ptsz(Address address, Handle stream) {
  return counted_free(Kind::kPooled, Kind::kDevice, address,
                      [=] { return REAL(cuMemFreeAsync_ptsz, Address, Handle)(address, stream); });
}
