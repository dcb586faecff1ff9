// What the program is told about the memory of its device: the limit, not the whole of it.
#include "driver_slots.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/residency.h"

using namespace lambent::shim;

namespace {

void narrow(Accounting* accounting, uint64_t* free, uint64_t* total, int device) {
  if (accounting != nullptr) accounting->narrow(free, total, device);
}

int current_device(const Accounting* accounting) {
  return accounting == nullptr ? 0 : accounting->current_device();
}

unsigned clamp_to_old(uint64_t bytes) {
  return bytes > UINT32_MAX ? UINT32_MAX : static_cast<unsigned>(bytes);
}

}  // namespace

SHIM_EXPORT Status cuMemGetInfo_v2(size_t* free, size_t* total) {
  GateScope gate_scope;
  InsideHook inside;
  if (Residency* residency = Residency::current()) residency->tidy();
  const Status status = REAL(cuMemGetInfo_v2, size_t*, size_t*)(free, total);
  if (status != kSuccess || free == nullptr || total == nullptr) return status;
  uint64_t free_bytes = *free;
  uint64_t total_bytes = *total;
  narrow(inside.accounting(), &free_bytes, &total_bytes, current_device(inside.accounting()));
  *free = free_bytes;
  *total = total_bytes;
  return status;
}

// The 32-bit form is answered from the 64-bit one, so that a limit below 4 GiB is seen exactly.
SHIM_EXPORT Status cuMemGetInfo(unsigned* free, unsigned* total) {
  InsideHook inside;
  Accounting* accounting = inside.accounting();
  if (accounting == nullptr || free == nullptr || total == nullptr) {
    return REAL(cuMemGetInfo, unsigned*, unsigned*)(free, total);
  }
  size_t free_now = 0;
  size_t total_now = 0;
  const Status status = REAL(cuMemGetInfo_v2, size_t*, size_t*)(&free_now, &total_now);
  if (status != kSuccess) return status;
  uint64_t free_bytes = free_now;
  uint64_t total_bytes = total_now;
  accounting->narrow(&free_bytes, &total_bytes, accounting->current_device());
  *free = clamp_to_old(free_bytes);
  *total = clamp_to_old(total_bytes);
  return status;
}

SHIM_EXPORT Status cuDeviceTotalMem_v2(size_t* total, Device device) {
  InsideHook inside;
  const Status status = REAL(cuDeviceTotalMem_v2, size_t*, Device)(total, device);
  if (status != kSuccess || total == nullptr) return status;
  uint64_t free_bytes = *total;
  uint64_t total_bytes = *total;
  narrow(inside.accounting(), &free_bytes, &total_bytes, device);
  *total = total_bytes;
  return status;
}

SHIM_EXPORT Status cuDeviceTotalMem(unsigned* total, Device device) {
  InsideHook inside;
  Accounting* accounting = inside.accounting();
  if (accounting == nullptr || total == nullptr) {
    return REAL(cuDeviceTotalMem, unsigned*, Device)(total, device);
  }
  size_t total_now = 0;
  const Status status = REAL(cuDeviceTotalMem_v2, size_t*, Device)(&total_now, device);
  if (status != kSuccess) return status;
  uint64_t free_bytes = total_now;
  uint64_t total_bytes = total_now;
  accounting->narrow(&free_bytes, &total_bytes, device);
  *total = clamp_to_old(total_bytes);
  return status;
}
