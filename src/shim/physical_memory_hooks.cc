// Physical memory (cuMemCreate) and where it is mapped.
#include "driver_slots.h"
#include "shim/abi.h"
#include "shim/gate.h"

using namespace lambent::shim;

namespace {

// The beginning of CUmemAllocationProp.
struct AllocationProperties {
  int type;
  int requested_handle_types;
  int location_type;
  int location_id;
};

constexpr int kLocationDevice = 1;

}  // namespace

SHIM_EXPORT Status cuMemCreate(PhysicalHandle* handle, size_t bytes, const void* properties,
                               unsigned long long flags) {
  const Passage passage;
  const auto call = [=] {
    return REAL(cuMemCreate, PhysicalHandle*, size_t, const void*, unsigned long long)(
        handle, bytes, properties, flags);
  };
  InsideHook inside;
  Accounting* accounting = inside.accounting();
  const auto* known = static_cast<const AllocationProperties*>(properties);
  const bool counts = accounting != nullptr && handle != nullptr && known != nullptr && bytes > 0 &&
                      known->location_type == kLocationDevice;
  if (!counts) return call();
  const uint64_t charge = accounting->charge_of(bytes);
  if (!accounting->try_reserve(charge)) return kOutOfMemory;
  const Status status = call();
  if (status == kSuccess) {
    accounting->record_physical(*handle, charge);
  } else {
    accounting->cancel(charge);
  }
  return status;
}

SHIM_EXPORT Status cuMemRelease(PhysicalHandle handle) {
  const Passage passage;
  InsideHook inside;
  Accounting* accounting = inside.accounting();
  const uint64_t physical = accounting == nullptr ? 0 : accounting->forget_handle(handle);
  const Status status = REAL(cuMemRelease, PhysicalHandle)(handle);
  if (accounting != nullptr) accounting->settle_handle(handle, physical, status == kSuccess);
  return status;
}

SHIM_EXPORT Status cuMemRetainAllocationHandle(PhysicalHandle* handle, void* address) {
  InsideHook inside;
  const Status status = REAL(cuMemRetainAllocationHandle, PhysicalHandle*, void*)(handle, address);
  Accounting* accounting = inside.accounting();
  if (status == kSuccess && accounting != nullptr && handle != nullptr) {
    accounting->retain_physical(*handle, reinterpret_cast<uint64_t>(address));
  }
  return status;
}

SHIM_EXPORT Status cuMemMap(Address address, size_t bytes, size_t offset, PhysicalHandle handle,
                            unsigned long long flags) {
  const Passage passage;
  InsideHook inside;
  const Status status = REAL(cuMemMap, Address, size_t, size_t, PhysicalHandle, unsigned long long)(
      address, bytes, offset, handle, flags);
  Accounting* accounting = inside.accounting();
  if (status == kSuccess && accounting != nullptr) {
    accounting->map_physical(address, bytes, handle);
  }
  return status;
}

SHIM_EXPORT Status cuMemUnmap(Address address, size_t bytes) {
  const Passage passage;
  InsideHook inside;
  const Status status = REAL(cuMemUnmap, Address, size_t)(address, bytes);
  Accounting* accounting = inside.accounting();
  if (status == kSuccess && accounting != nullptr) accounting->unmap_physical(address, bytes);
  return status;
}
