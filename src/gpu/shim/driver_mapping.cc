#include "gpu/shim/driver_mapping.h"

#include <atomic>

#include "driver_slots.h"
#include "gpu/cuda_abi/driver_types.h"
#include "gpu/shim/log.h"

namespace lambent::shim {
namespace {

constexpr int kAttributeCanMap = 102;    // CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
constexpr int kAttributeHostNode = 134;  // CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID
// CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
constexpr int kAttributeCanMapHost = 141;

enum class Answer : int { kUnknown, kYes, kNo };
std::atomic<Answer> can_map[kMostDevices];
// One bit for each device that may reach this one's memory.
uint64_t peers[kMostDevices];

CUmemAllocationProp plain_memory_of(Device device) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

bool ask_whether_it_can_map(Device device) {
  int supported = 0;
  const Status status =
      REAL(cuDeviceGetAttribute, int*, int, Device)(&supported, kAttributeCanMap, device);
  if (status != kSuccess || supported == 0) return false;
  const CUmemAllocationProp properties = plain_memory_of(device);
  size_t granularity = 0;
  const auto ask = REAL(cuMemGetAllocationGranularity, size_t*, const CUmemAllocationProp*, int);
  return ask(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == kSuccess &&
         granularity > 0 && kMappingGranularity % granularity == 0;
}

}  // namespace

bool device_can_map(Device device) {
  if (device < 0 || device >= kMostDevices) return false;
  Answer answer = can_map[device].load(std::memory_order_relaxed);
  if (answer == Answer::kUnknown) {
    answer = ask_whether_it_can_map(device) ? Answer::kYes : Answer::kNo;
    if (answer == Answer::kNo) log_line("device %d cannot map memory: it stays plain", device);
    can_map[device].store(answer, std::memory_order_relaxed);
  }
  return answer == Answer::kYes;
}

bool device_can_map_host(Device device) {
  int supported = 0;
  const auto ask = REAL(cuDeviceGetAttribute, int*, int, Device);
  return ask(&supported, kAttributeCanMapHost, device) == kSuccess && supported != 0;
}

uint64_t device_bytes(Device device) {
  size_t total = 0;
  const auto ask = REAL(cuDeviceTotalMem_v2, size_t*, Device);
  return ask(&total, device) == kSuccess ? total : 0;
}

Status reserve_addresses(uint64_t bytes, uint64_t* base) {
  Address reserved = 0;
  const auto reserve =
      REAL(cuMemAddressReserve, Address*, size_t, size_t, Address, unsigned long long);
  const Status status = reserve(&reserved, bytes, kMappingGranularity, 0, 0);
  *base = reserved;
  return status;
}

void free_addresses(uint64_t base, uint64_t bytes) {
  const Status status = REAL(cuMemAddressFree, Address, size_t)(base, bytes);
  if (status != kSuccess) log_line("cuMemAddressFree of %#lx failed: %d", base, status);
}

Status create_physical(Device device, uint64_t bytes, uint64_t* physical) {
  const CUmemAllocationProp properties = plain_memory_of(device);
  PhysicalHandle handle = 0;
  const auto create =
      REAL(cuMemCreate, PhysicalHandle*, size_t, const CUmemAllocationProp*, unsigned long long);
  const Status status = create(&handle, bytes, &properties, 0);
  *physical = handle;
  return status;
}

Status create_physical_on_host(Device device, uint64_t bytes, uint64_t* physical) {
  const auto ask = REAL(cuDeviceGetAttribute, int*, int, Device);
  int node = -1;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  if (ask(&node, kAttributeHostNode, device) == kSuccess && node > 0) properties.location.id = node;
  PhysicalHandle handle = 0;
  const auto create =
      REAL(cuMemCreate, PhysicalHandle*, size_t, const CUmemAllocationProp*, unsigned long long);
  const Status status = create(&handle, bytes, &properties, 0);
  *physical = handle;
  return status;
}

Status map_physical(uint64_t base, uint64_t bytes, uint64_t physical) {
  return REAL(cuMemMap, Address, size_t, size_t, PhysicalHandle, unsigned long long)(base, bytes, 0,
                                                                                     physical, 0);
}

Status open_access(uint64_t base, uint64_t bytes, Device device) {
  CUmemAccessDesc descriptions[kMostDevices];
  size_t count = 0;
  const uint64_t allowed = __atomic_load_n(&peers[device], __ATOMIC_ACQUIRE);
  for (int other = 0; other < kMostDevices; ++other) {
    if (other != device && (allowed >> other & 1) == 0) continue;
    descriptions[count].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    descriptions[count].location.id = other;
    descriptions[count].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    ++count;
  }
  const auto set = REAL(cuMemSetAccess, Address, size_t, const CUmemAccessDesc*, size_t);
  return set(base, bytes, descriptions, count);
}

void unmap(uint64_t base, uint64_t bytes) {
  const Status status = REAL(cuMemUnmap, Address, size_t)(base, bytes);
  if (status != kSuccess) log_line("cuMemUnmap of %#lx failed: %d", base, status);
}

void release_physical(uint64_t physical) {
  const Status status = REAL(cuMemRelease, PhysicalHandle)(physical);
  if (status != kSuccess) log_line("cuMemRelease failed: %d", status);
}

Status create_and_map(Device device, uint64_t base, uint64_t bytes, uint64_t* physical) {
  Status status = create_physical(device, bytes, physical);
  if (status != kSuccess) return status;
  status = map_physical(base, bytes, *physical);
  if (status == kSuccess) {
    status = open_access(base, bytes, device);
    if (status == kSuccess) return status;
    unmap(base, bytes);
  }
  release_physical(*physical);
  return status;
}

void let_peer_in(Device device, Device peer) {
  if (device < 0 || device >= kMostDevices || peer < 0 || peer >= kMostDevices) return;
  __atomic_fetch_or(&peers[device], uint64_t{1} << peer, __ATOMIC_ACQ_REL);
}

bool is_let_in(Device device, Device peer) {
  if (device < 0 || device >= kMostDevices || peer < 0 || peer >= kMostDevices) return false;
  return (__atomic_load_n(&peers[device], __ATOMIC_ACQUIRE) >> peer & 1) != 0;
}

}  // namespace lambent::shim
