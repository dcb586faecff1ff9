// Contexts that come, and contexts that go and take their memory with them.
#include "driver_slots.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/contexts.h"
#include "gpu/shim/gate.h"
#include "gpu/shim/graph_memory.h"
#include "gpu/shim/kernel_words.h"
#include "gpu/shim/residency.h"

using namespace lambent::shim;

namespace {

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
  for (uint64_t key = 0; (key = accounting.next_pooled(context, key)) != 0;) {
    unsigned type = 0;
    const Status status = REAL(cuPointerGetAttribute, void*, int, Address)(&type, kMemoryType, key);
    if (status == kInvalidValue) accounting.settle(accounting.forget(Kind::kPooled, key), true);
  }
}

// A context takes memory that no call names, and with it the program begins to use the driver.
template <typename Call>
Status make_context(Call call) {
  const GateScope gate_scope;
  InsideHook inside;
  const Status status = call();
  if (status == kSuccess && inside.outermost()) program_uses_the_driver();
  return status;
}

template <typename Call>
Status create_context(Handle* context, Call call) {
  return make_context([=] {
    const Status status = call();
    if (status == kSuccess) context_is_made(*context);
    return status;
  });
}

Status destroy_context(Handle context, unsigned slot) {
  const GateScope gate_scope;
  InsideHook inside;
  forget_code();
  const bool was_known = context_is_ended(context);
  const Status status = real<Status (*)(Handle)>(slot)(context);
  if (status != kSuccess) {
    if (was_known) context_is_made(context);
    return status;
  }
  Accounting* accounting = inside.accounting();
  if (accounting != nullptr) accounting->context_is_gone(context, false);
  if (Residency* residency = Residency::current()) residency->context_is_gone(context);
  if (accounting != nullptr) forget_pooled(*accounting, context);
  recount_graph_memory();
  return status;
}

void primary_context_is_gone(Device device, Handle context, Accounting* accounting,
                             Residency* residency) {
  if (accounting != nullptr) accounting->context_is_gone(context, true);
  recount_graph_memory();
  if (residency != nullptr) {
    residency->context_is_gone(context);
    residency->pools_are_gone(device);
  }
}

// A reset always ends what the context held; a release only if it was the last.
Status end_primary_context(Device device, unsigned slot, bool is_reset) {
  const GateScope gate_scope;
  InsideHook inside;
  Accounting* accounting = inside.accounting();
  Residency* residency = Residency::current();
  const bool matters = accounting != nullptr || residency != nullptr;
  const Handle context = matters ? active_primary_context(device) : nullptr;
  forget_code();
  const Status status = real<Status (*)(Device)>(slot)(device);
  if (status != kSuccess || context == nullptr) return status;
  if (!is_reset && is_active(device)) return status;
  primary_context_is_gone(device, context, accounting, residency);
  return status;
}

}  // namespace

Handle lambent::shim::current_context() {
  Handle context = nullptr;
  return REAL(cuCtxGetCurrent, Handle*)(&context) == kSuccess ? context : nullptr;
}

SHIM_EXPORT Status cuDevicePrimaryCtxRetain(Handle* context, Device device) {
  return make_context(
      [=] { return REAL(cuDevicePrimaryCtxRetain, Handle*, Device)(context, device); });
}

SHIM_EXPORT Status cuCtxCreate(Handle* context, unsigned flags, Device device) {
  return create_context(context, [=] {
    return REAL(cuCtxCreate, Handle*, unsigned, Device)(context, flags, device);
  });
}

SHIM_EXPORT Status cuCtxCreate_v2(Handle* context, unsigned flags, Device device) {
  return create_context(context, [=] {
    return REAL(cuCtxCreate_v2, Handle*, unsigned, Device)(context, flags, device);
  });
}

SHIM_EXPORT Status cuCtxCreate_v3(Handle* context, const void* affinities, int count,
                                  unsigned flags, Device device) {
  return create_context(context, [=] {
    return REAL(cuCtxCreate_v3, Handle*, const void*, int, unsigned, Device)(context, affinities,
                                                                             count, flags, device);
  });
}

SHIM_EXPORT Status cuCtxCreate_v4(Handle* context, const void* parameters, unsigned flags,
                                  Device device) {
  return create_context(context, [=] {
    return REAL(cuCtxCreate_v4, Handle*, const void*, unsigned, Device)(context, parameters, flags,
                                                                        device);
  });
}

// Contexts that may be used with graphics: the driver's exports that no toolkit's stub has.

SHIM_EXPORT Status cuGLCtxCreate(Handle* context, unsigned flags, Device device) {
  return create_context(context, [=] {
    return REAL(cuGLCtxCreate, Handle*, unsigned, Device)(context, flags, device);
  });
}

SHIM_EXPORT Status cuGLCtxCreate_v2(Handle* context, unsigned flags, Device device) {
  return create_context(context, [=] {
    return REAL(cuGLCtxCreate_v2, Handle*, unsigned, Device)(context, flags, device);
  });
}

SHIM_EXPORT Status cuVDPAUCtxCreate(Handle* context, unsigned flags, Device device, unsigned vdpau,
                                    void* find) {
  return create_context(context, [=] {
    return REAL(cuVDPAUCtxCreate, Handle*, unsigned, Device, unsigned, void*)(context, flags,
                                                                              device, vdpau, find);
  });
}

SHIM_EXPORT Status cuVDPAUCtxCreate_v2(Handle* context, unsigned flags, Device device,
                                       unsigned vdpau, void* find) {
  return create_context(context, [=] {
    return REAL(cuVDPAUCtxCreate_v2, Handle*, unsigned, Device, unsigned, void*)(
        context, flags, device, vdpau, find);
  });
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

// It takes memory that no call names.
SHIM_EXPORT Status cuGreenCtxCreate(Handle* green, Handle description, Device device,
                                    unsigned flags) {
  const GateScope gate_scope;
  const auto create = REAL(cuGreenCtxCreate, Handle*, Handle, Device, unsigned);
  const Status status = noted(create(green, description, device, flags));
  if (status == kSuccess) context_is_made_that_nobody_waits_for();
  return status;
}

// The memory that was allocated in a green context is the primary context's, which the green one
// keeps alive.
SHIM_EXPORT Status cuGreenCtxDestroy(Handle green) {
  const GateScope gate_scope;
  InsideHook inside;
  Accounting* accounting = inside.accounting();
  Residency* residency = Residency::current();
  Handle context = nullptr;
  Device device = 0;
  const bool is_known = (accounting != nullptr || residency != nullptr) &&
                        REAL(cuCtxFromGreenCtx, Handle*, Handle)(&context, green) == kSuccess &&
                        REAL(cuCtxPushCurrent_v2, Handle)(context) == kSuccess;
  if (!is_known) return REAL(cuGreenCtxDestroy, Handle)(green);
  REAL(cuCtxGetDevice, Device*)(&device);
  Handle popped = nullptr;
  REAL(cuCtxPopCurrent_v2, Handle*)(&popped);
  const Handle primary = active_primary_context(device);
  const Status status = REAL(cuGreenCtxDestroy, Handle)(green);
  if (status != kSuccess || primary == nullptr) return status;
  if (accounting != nullptr) accounting->context_is_inherited(context, primary);
  if (residency != nullptr) residency->context_is_inherited(context, primary);
  if (!is_active(device)) primary_context_is_gone(device, primary, accounting, residency);
  return status;
}
