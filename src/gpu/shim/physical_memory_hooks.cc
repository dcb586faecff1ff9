// Physical memory (cuMemCreate) and where it is mapped.
#include "driver_slots.h"
#include "gpu/cuda_abi/driver_types.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/gate.h"
#include "gpu/shim/residency.h"

using namespace lambent::shim;

namespace {

// Null where the program's handles are the driver's.
OwnMappings* own_mappings() {
  Residency* residency = Residency::current();
  return residency == nullptr ? nullptr : residency->own();
}

Status create(PhysicalHandle* handle, size_t bytes, const CUmemAllocationProp* properties,
              unsigned long long flags) {
  const Status status = REAL(cuMemCreate, PhysicalHandle*, size_t, const CUmemAllocationProp*,
                             unsigned long long)(handle, bytes, properties, flags);
  OwnMappings* own = own_mappings();
  if (status != kSuccess || own == nullptr || !OwnMappings::can_move(*properties)) return status;
  // Without memory to remember it, the driver's own handle serves: then it stays where it is.
  const uint64_t ours = own->add(*handle, bytes, *properties, flags, current_context());
  if (ours != 0) *handle = ours;
  return status;
}

Status release(PhysicalHandle handle) {
  const auto call = REAL(cuMemRelease, PhysicalHandle);
  OwnMappings* own = own_mappings();
  bool is_valid = false;
  uint64_t real = 0;
  if (own == nullptr || !own->release(handle, &is_valid, &real)) return call(handle);
  if (!is_valid) return kInvalidValue;
  return real == 0 ? kSuccess : call(real);
}

// Memory that the shim maps itself is plain memory to the program: not to be unmapped or retained.
bool is_the_shims(Address address) {
  Residency* residency = Residency::current();
  return residency != nullptr && residency->owns(address);
}

// The driver's handle, for a call that may keep it.
PhysicalHandle real_handle(PhysicalHandle handle, bool stays) {
  OwnMappings* own = own_mappings();
  return own == nullptr ? handle : own->real_of(handle, stays);
}

}  // namespace

SHIM_EXPORT Status cuMemCreate(PhysicalHandle* handle, size_t bytes,
                               const CUmemAllocationProp* properties, unsigned long long flags) {
  const GateScope gate_scope;
  const auto call = [=] { return create(handle, bytes, properties, flags); };
  InsideHook inside;
  Accounting* accounting = inside.accounting();
  const bool counts = accounting != nullptr && handle != nullptr && properties != nullptr &&
                      bytes > 0 && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  if (!counts) return call();
  const uint64_t charge = accounting->charge_of(bytes);
  const int device = properties->location.id;
  if (!accounting->try_reserve(charge, device)) return kOutOfMemory;
  const Status status = call();
  if (status == kSuccess) {
    accounting->record_physical(*handle, charge, device);
    program_uses_the_driver();
  } else {
    accounting->cancel(charge, device);
  }
  return status;
}

SHIM_EXPORT Status cuMemRelease(PhysicalHandle handle) {
  const GateScope gate_scope;
  InsideHook inside;
  Accounting* accounting = inside.accounting();
  const uint64_t physical = accounting == nullptr ? 0 : accounting->forget_handle(handle);
  const Status status = release(handle);
  if (accounting != nullptr) accounting->settle_handle(handle, physical, status == kSuccess);
  return status;
}

SHIM_EXPORT Status cuMemRetainAllocationHandle(PhysicalHandle* handle, void* address) {
  const GateScope gate_scope;
  InsideHook inside;
  OwnMappings* own = own_mappings();
  const uint64_t at = reinterpret_cast<uint64_t>(address);
  if (is_the_shims(at)) return kInvalidValue;
  const uint64_t ours = own == nullptr || handle == nullptr ? 0 : own->retain(at);
  Status status = kSuccess;
  if (ours != 0) {
    *handle = ours;
  } else {
    status = REAL(cuMemRetainAllocationHandle, PhysicalHandle*, void*)(handle, address);
  }
  Accounting* accounting = inside.accounting();
  if (status == kSuccess && accounting != nullptr && handle != nullptr) {
    accounting->retain_physical(*handle, at);
  }
  return status;
}

SHIM_EXPORT Status cuMemMap(Address address, size_t bytes, size_t offset, PhysicalHandle handle,
                            unsigned long long flags) {
  const GateScope gate_scope;
  InsideHook inside;
  const bool stays = offset != 0 || flags != 0;
  const Status status = REAL(cuMemMap, Address, size_t, size_t, PhysicalHandle, unsigned long long)(
      address, bytes, offset, real_handle(handle, stays), flags);
  if (status != kSuccess) return status;
  if (OwnMappings* own = own_mappings(); own != nullptr && !own->map(address, bytes, handle)) {
    REAL(cuMemUnmap, Address, size_t)(address, bytes);
    return kOutOfMemory;
  }
  if (Accounting* accounting = inside.accounting()) {
    accounting->map_physical(address, bytes, handle);
  }
  return status;
}

SHIM_EXPORT Status cuMemUnmap(Address address, size_t bytes) {
  const GateScope gate_scope;
  InsideHook inside;
  if (is_the_shims(address)) return kInvalidValue;
  const Status status = REAL(cuMemUnmap, Address, size_t)(address, bytes);
  if (status != kSuccess) return status;
  if (Accounting* accounting = inside.accounting()) accounting->unmap_physical(address, bytes);
  if (OwnMappings* own = own_mappings()) {
    while (const uint64_t real = own->unmap(address, bytes)) {
      REAL(cuMemRelease, PhysicalHandle)(real);
    }
  }
  return status;
}

SHIM_EXPORT Status cuMemSetAccess(Address address, size_t bytes, const CUmemAccessDesc* wanted,
                                  size_t count) {
  const GateScope gate_scope;
  InsideHook inside;
  if (is_the_shims(address)) return kInvalidValue;
  const Status status = REAL(cuMemSetAccess, Address, size_t, const CUmemAccessDesc*, size_t)(
      address, bytes, wanted, count);
  OwnMappings* own = own_mappings();
  if (status == kSuccess && own != nullptr) own->set_access(address, bytes, wanted, count);
  return status;
}

SHIM_EXPORT Status cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                          PhysicalHandle handle) {
  InsideHook inside;
  OwnMappings* own = own_mappings();
  if (own != nullptr && properties != nullptr && own->properties_of(handle, properties)) {
    return kSuccess;
  }
  return REAL(cuMemGetAllocationPropertiesFromHandle, CUmemAllocationProp*, PhysicalHandle)(
      properties, handle);
}

// What others may hold as well stays what and where it is.
SHIM_EXPORT Status cuMemExportToShareableHandle(void* exported, PhysicalHandle handle, int type,
                                                unsigned long long flags) {
  const GateScope gate_scope;
  InsideHook inside;
  return REAL(cuMemExportToShareableHandle, void*, PhysicalHandle, int, unsigned long long)(
      exported, real_handle(handle, true), type, flags);
}

SHIM_EXPORT Status cuMulticastBindMem(PhysicalHandle multicast, size_t multicast_offset,
                                      PhysicalHandle handle, size_t offset, size_t bytes,
                                      unsigned long long flags) {
  const GateScope gate_scope;
  InsideHook inside;
  return REAL(cuMulticastBindMem, PhysicalHandle, size_t, PhysicalHandle, size_t, size_t,
              unsigned long long)(multicast, multicast_offset, real_handle(handle, true), offset,
                                  bytes, flags);
}
