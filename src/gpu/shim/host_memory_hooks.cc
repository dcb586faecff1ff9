// Page-locked host memory: counted, not limited.
#include "driver_slots.h"
#include "gpu/shim/abi.h"

using namespace lambent::shim;

namespace {

template <typename Call>
Status counted_host_allocation(void** address, uint64_t bytes, Call call) {
  InsideHook inside;
  const Status status = call();
  Accounting* accounting = inside.accounting();
  if (status == kSuccess && accounting != nullptr && address != nullptr) {
    accounting->record_host(reinterpret_cast<uint64_t>(*address), bytes, current_context());
  }
  return status;
}

template <typename Call>
Status counted_host_free(void* address, Call call) {
  return counted_free(Kind::kHost, Kind::kHost, reinterpret_cast<uint64_t>(address), call);
}

}  // namespace

SHIM_EXPORT Status cuMemAllocHost_v2(void** address, size_t bytes) {
  return counted_host_allocation(
      address, bytes, [=] { return REAL(cuMemAllocHost_v2, void**, size_t)(address, bytes); });
}

SHIM_EXPORT Status cuMemAllocHost(void** address, unsigned bytes) {
  return counted_host_allocation(
      address, bytes, [=] { return REAL(cuMemAllocHost, void**, unsigned)(address, bytes); });
}

SHIM_EXPORT Status cuMemHostAlloc(void** address, size_t bytes, unsigned flags) {
  return counted_host_allocation(address, bytes, [=] {
    return REAL(cuMemHostAlloc, void**, size_t, unsigned)(address, bytes, flags);
  });
}

SHIM_EXPORT Status cuMemHostRegister_v2(void* address, size_t bytes, unsigned flags) {
  return counted_host_allocation(&address, bytes, [=] {
    return REAL(cuMemHostRegister_v2, void*, size_t, unsigned)(address, bytes, flags);
  });
}

SHIM_EXPORT Status cuMemHostRegister(void* address, size_t bytes, unsigned flags) {
  return counted_host_allocation(&address, bytes, [=] {
    return REAL(cuMemHostRegister, void*, size_t, unsigned)(address, bytes, flags);
  });
}

SHIM_EXPORT Status cuMemFreeHost(void* address) {
  return counted_host_free(address, [=] { return REAL(cuMemFreeHost, void*)(address); });
}

SHIM_EXPORT Status cuMemHostUnregister(void* address) {
  return counted_host_free(address, [=] { return REAL(cuMemHostUnregister, void*)(address); });
}
