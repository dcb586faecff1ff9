// Contexts that go, and take their memory with them.
#include "driver_slots.h"
#include "shim/abi.h"
#include "shim/gate.h"
#include "shim/residency.h"

using namespace lambent::shim;

namespace {

// The primary context of a device if it is active, else null. Programs get at it by ways that we do
// not see, so ask when it matters: retaining an active one only counts up, and we count down again.
Handle active_primary_context(Device device) {
  unsigned flags = 0;
  int active = 0;
  const Status status =
      REAL(cuDevicePrimaryCtxGetState, Device, unsigned*, int*)(device, &flags, &active);
  Handle context = nullptr;
  if (status != kSuccess || active == 0) return nullptr;
  if (REAL(cuDevicePrimaryCtxRetain, Handle*, Device)(&context, device) != kSuccess) return nullptr;
  REAL(cuDevicePrimaryCtxRelease_v2, Device)(device);
  return context;
}

bool is_active(Device device) {
  unsigned flags = 0;
  int active = 1;
  REAL(cuDevicePrimaryCtxGetState, Device, unsigned*, int*)(device, &flags, &active);
  return active != 0;
}

// A pool belongs to the device, and its memory outlives the context in which it was allocated,
// unless the driver sees it otherwise: so ask for each piece whether there still is such an
// address.
void forget_pooled(Accounting& accounting, Handle context) {
  constexpr int kMemoryType = 2;  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
  constexpr Status kInvalidValue = 1;
  for (uint64_t key = 0; (key = accounting.next_pooled(context, key)) != 0;) {
    unsigned type = 0;
    const Status status = REAL(cuPointerGetAttribute, void*, int, Address)(&type, kMemoryType, key);
    if (status == kInvalidValue) accounting.settle(accounting.forget(Kind::kPooled, key), true);
  }
}

Status destroy_context(Handle context, unsigned slot) {
  const Passage passage;
  InsideHook inside;
  const Status status = real<Status (*)(Handle)>(slot)(context);
  if (status != kSuccess) return status;
  Accounting* accounting = inside.accounting();
  if (accounting != nullptr) accounting->context_is_gone(context, false);
  if (Residency* residency = Residency::current()) residency->context_is_gone(context);
  if (accounting != nullptr) forget_pooled(*accounting, context);
  return status;
}

// A reset always ends what the context held; a release only if it was the last.
Status end_primary_context(Device device, unsigned slot, bool is_reset) {
  const Passage passage;
  InsideHook inside;
  Accounting* accounting = inside.accounting();
  Residency* residency = Residency::current();
  const bool matters = accounting != nullptr || residency != nullptr;
  const Handle context = matters ? active_primary_context(device) : nullptr;
  const Status status = real<Status (*)(Device)>(slot)(device);
  if (status != kSuccess || context == nullptr) return status;
  if (!is_reset && is_active(device)) return status;
  if (accounting != nullptr) accounting->context_is_gone(context, true);
  if (residency != nullptr) {
    residency->context_is_gone(context);
    residency->pools_are_gone(device);
  }
  return status;
}

}  // namespace

Handle lambent::shim::current_context() {
  Handle context = nullptr;
  return REAL(cuCtxGetCurrent, Handle*)(&context) == kSuccess ? context : nullptr;
}

SHIM_EXPORT Status cuCtxDestroy_v2(Handle context) {
  return destroy_context(context, kSlot_cuCtxDestroy_v2);
}

SHIM_EXPORT Status cuCtxDestroy(Handle context) {
  return destroy_context(context, kSlot_cuCtxDestroy);
}

SHIM_EXPORT Status cuCtxDetach(Handle context) {
  return destroy_context(context, kSlot_cuCtxDetach);
}

SHIM_EXPORT Status cuDevicePrimaryCtxReset_v2(Device device) {
  return end_primary_context(device, kSlot_cuDevicePrimaryCtxReset_v2, true);
}

SHIM_EXPORT Status cuDevicePrimaryCtxReset(Device device) {
  return end_primary_context(device, kSlot_cuDevicePrimaryCtxReset, true);
}

SHIM_EXPORT Status cuDevicePrimaryCtxRelease_v2(Device device) {
  return end_primary_context(device, kSlot_cuDevicePrimaryCtxRelease_v2, false);
}

SHIM_EXPORT Status cuDevicePrimaryCtxRelease(Device device) {
  return end_primary_context(device, kSlot_cuDevicePrimaryCtxRelease, false);
}
