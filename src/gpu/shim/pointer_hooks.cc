// What the program is told of addresses that it got from us: what the driver would say of plain
// memory of the size that was asked for. And what such memory cannot do: leave the process.
#include <string.h>

#include "driver_slots.h"
#include "gpu/cuda_abi/driver_types.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/log.h"
#include "gpu/shim/residency.h"

using namespace lambent::shim;
using lambent::device_memory::Allocation;

namespace {

// An address where nothing ever lies: what the driver answers there is its answer for nothing.
constexpr Address kNowhere = 1;
// Numbers of the driver's own allocations are small.
constexpr unsigned long long kFirstBufferId = 1ULL << 62;

enum class Ours { kNo, kNothingThere, kYes };

Ours look_up(Address address, Allocation* allocation) {
  Residency* residency = Residency::current();
  if (residency == nullptr || !residency->owns(address)) return Ours::kNo;
  return residency->find(address, allocation) ? Ours::kYes : Ours::kNothingThere;
}

template <typename Value>
Status put(void* data, Value value) {
  memcpy(data, &value, sizeof value);
  return kSuccess;
}

// kAskDriver where the driver's own answer is right, or an error.
Status attribute_of(const Allocation& allocation, Address address, int attribute, void* data) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return put(data, allocation.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put(data, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return put(data, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return kInvalidValue;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return put(data, kFirstBufferId + allocation.number);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put(data, allocation.owner.device);
    // It is not: cuIpcGetMemHandle would refuse it.
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return put(data, 0);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put(data, static_cast<Address>(allocation.base));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put(data, static_cast<size_t>(allocation.bytes));
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return put(data, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return put(data, 0ULL);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return put(data, static_cast<int>(CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return put(data, allocation.pool);
    default:
      return kAskDriver;
  }
}

Status ask_about_one(void* data, int attribute, Address address) {
  return REAL(cuPointerGetAttribute, void*, int, Address)(data, attribute, address);
}

Status ask_about_many(unsigned count, int* attributes, void** data, Address address) {
  return REAL(cuPointerGetAttributes, unsigned, int*, void**, Address)(count, attributes, data,
                                                                       address);
}

// Something asks for memory of ours in a form that could not move any more.
bool is_refused(Address address, const char* function) {
  Allocation allocation;
  if (look_up(address, &allocation) != Ours::kYes) return false;
  log_line("%s: mapped memory stays in its process (LAMBENT_SHIM_MEMORY_MODE)", function);
  return true;
}

OwnMappings* own_mappings() {
  Residency* residency = Residency::current();
  return residency == nullptr ? nullptr : residency->own();
}

// A question to the driver about what the program has mapped itself has to wait until that is
// there.
template <typename Call>
Status asked_once_it_is_there(Address address, Call call) {
  OwnMappings* own = own_mappings();
  if (own == nullptr || !own->holds(address)) return call();
  const GateScope gate_scope;
  return call();
}

// Another process will know this memory by its pages.
void keep(Address address, size_t bytes) {
  if (OwnMappings* own = own_mappings()) own->keep(address, bytes);
}

}  // namespace

SHIM_EXPORT Status cuMemGetAddressRange_v2(Address* base, size_t* bytes, Address address) {
  InsideHook inside;
  Allocation allocation;
  const auto ask = REAL(cuMemGetAddressRange_v2, Address*, size_t*, Address);
  switch (look_up(address, &allocation)) {
    case Ours::kNo:
      return asked_once_it_is_there(address, [=] { return ask(base, bytes, address); });
    case Ours::kNothingThere:
      return ask(base, bytes, kNowhere);
    case Ours::kYes:
      break;
  }
  if (base != nullptr) *base = allocation.base;
  if (bytes != nullptr) *bytes = allocation.bytes;
  return kSuccess;
}

SHIM_EXPORT Status cuPointerGetAttribute(void* data, int attribute, Address address) {
  InsideHook inside;
  Allocation allocation;
  switch (look_up(address, &allocation)) {
    case Ours::kNo:
      return asked_once_it_is_there(address,
                                    [=] { return ask_about_one(data, attribute, address); });
    case Ours::kNothingThere:
      return ask_about_one(data, attribute, kNowhere);
    case Ours::kYes:
      break;
  }
  if (data == nullptr) return kInvalidValue;
  const Status status = attribute_of(allocation, address, attribute, data);
  if (status != kAskDriver) return status;
  GateScope gate_scope;
  return ask_about_one(data, attribute, address);
}

// Where there is no answer, this question puts the driver's word for nothing.
SHIM_EXPORT Status cuPointerGetAttributes(unsigned count, int* attributes, void** data,
                                          Address address) {
  InsideHook inside;
  Allocation allocation;
  const Ours ours = look_up(address, &allocation);
  if (ours == Ours::kNo || attributes == nullptr || data == nullptr) {
    return asked_once_it_is_there(address,
                                  [=] { return ask_about_many(count, attributes, data, address); });
  }
  if (ours == Ours::kNothingThere) return ask_about_many(count, attributes, data, kNowhere);
  for (unsigned i = 0; i < count; ++i) {
    if (data[i] == nullptr) return kInvalidValue;
    if (attribute_of(allocation, address, attributes[i], data[i]) == kSuccess) continue;
    if (const Status status = ask_about_many(1, &attributes[i], &data[i], kNowhere)) return status;
  }
  return kSuccess;
}

SHIM_EXPORT Status cuIpcGetMemHandle(void* handle, Address address) {
  GateScope gate_scope;
  InsideHook inside;
  if (handle != nullptr && is_refused(address, "cuIpcGetMemHandle")) return kNotSupported;
  return REAL(cuIpcGetMemHandle, void*, Address)(handle, address);
}

SHIM_EXPORT Status cuMemGetHandleForAddressRange(void* handle, Address address, size_t bytes,
                                                 int type, unsigned long long flags) {
  GateScope gate_scope;
  InsideHook inside;
  if (handle != nullptr && is_refused(address, "cuMemGetHandleForAddressRange"))
    return kNotSupported;
  keep(address, bytes);
  return REAL(cuMemGetHandleForAddressRange, void*, Address, size_t, int, unsigned long long)(
      handle, address, bytes, type, flags);
}

SHIM_EXPORT Status cuMulticastBindAddr(PhysicalHandle multicast, size_t multicast_offset,
                                       Address address, size_t bytes, unsigned long long flags) {
  GateScope gate_scope;
  InsideHook inside;
  keep(address, bytes);
  return REAL(cuMulticastBindAddr, PhysicalHandle, size_t, Address, size_t, unsigned long long)(
      multicast, multicast_offset, address, bytes, flags);
}
