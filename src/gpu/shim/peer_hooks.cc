// Who else may reach device memory: contexts that open each other, and the pools of a device. The
// driver does it for its memory, we for ours. What was opened stays open until the program ends.
#include "driver_slots.h"
#include "gpu/cuda_abi/driver_types.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/captures.h"
#include "gpu/shim/log.h"
#include "gpu/shim/residency.h"

using namespace lambent::shim;

namespace {

Device current_device() {
  Device device = -1;
  return REAL(cuCtxGetDevice, Device*)(&device) == kSuccess ? device : -1;
}

void open_to_peer(Residency* residency, Device device, Device peer) {
  if (residency == nullptr || device < 0 || peer < 0 || device == peer) return;
  const Status status = residency->open_to_peer(device, peer);
  if (status != kSuccess) log_line("device %d cannot reach device %d: %d", peer, device, status);
}

// As the pools that every device has: their memory is not shared and lies on one device.
bool is_plain(const CUmemPoolProps& properties) {
  return properties.allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
         properties.handleTypes == CU_MEM_HANDLE_TYPE_NONE && properties.maxSize == 0 &&
         properties.usage == 0 && properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

}  // namespace

// The current context opens the memory of `peer` for itself.
SHIM_EXPORT Status cuCtxEnablePeerAccess(Handle peer, unsigned flags) {
  GateScope gate_scope;
  InsideHook inside;
  const Status status = REAL(cuCtxEnablePeerAccess, Handle, unsigned)(peer, flags);
  Residency* residency = Residency::current();
  if (status != kSuccess || residency == nullptr) return status;
  const Device reaches = current_device();
  const InContext in_peer(peer);
  open_to_peer(residency, current_device(), reaches);
  return status;
}

SHIM_EXPORT Status cuMemPoolSetAccess(Handle pool, const CUmemAccessDesc* wanted, size_t count) {
  GateScope gate_scope;
  InsideHook inside;
  const Status status =
      REAL(cuMemPoolSetAccess, Handle, const CUmemAccessDesc*, size_t)(pool, wanted, count);
  Residency* residency = Residency::current();
  Device device = -1;
  if (status != kSuccess || residency == nullptr || !residency->device_of_pool(pool, &device)) {
    return status;
  }
  for (size_t i = 0; i < count; ++i) {
    const bool opens = wanted[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (opens && wanted[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
      open_to_peer(residency, device, wanted[i].location.id);
    }
  }
  return status;
}

SHIM_EXPORT Status cuMemPoolCreate(Handle* pool, const CUmemPoolProps* properties) {
  InsideHook inside;
  const Status status = REAL(cuMemPoolCreate, Handle*, const CUmemPoolProps*)(pool, properties);
  if (status != kSuccess) return status;
  Accounting* accounting = inside.accounting();
  const bool matters = accounting != nullptr && accounting->devices() > 1;
  if (matters && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    accounting->pool_is_made(reinterpret_cast<uint64_t>(*pool), properties->location.id);
  }
  Residency* residency = Residency::current();
  if (residency != nullptr && is_plain(*properties)) {
    residency->pool_is_made(*pool, properties->location.id);
  }
  return status;
}

SHIM_EXPORT Status cuMemPoolDestroy(Handle pool) {
  InsideHook inside;
  if (Accounting* accounting = inside.accounting()) {
    accounting->pool_is_gone(reinterpret_cast<uint64_t>(pool));
  }
  if (Residency* residency = Residency::current()) residency->pool_is_gone(pool);
  return REAL(cuMemPoolDestroy, Handle)(pool);
}
