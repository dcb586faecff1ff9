#include "gpu/shim/managed_memory.h"

#include <string.h>

#include <atomic>

#include "driver_slots.h"
#include "gpu/cuda_abi/driver_types.h"
#include "gpu/shim/driver_mapping.h"
#include "gpu/shim/log.h"

namespace lambent::shim {
namespace {

constexpr int kAttributeConcurrent = 89;  // CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS
constexpr unsigned kAttachGlobal = 1;     // CU_MEM_ATTACH_GLOBAL
constexpr unsigned kNonBlocking = 1;      // CU_STREAM_NON_BLOCKING

enum class Answer : int { kUnknown, kYes, kNo };
std::atomic<Answer> can_manage[kMostDevices];

std::atomic<ManagedWay> way{ManagedWay::kUnread};

ManagedWay read_way() {
  const char* name = managed_way_name();
  if (name == nullptr || strcmp(name, "prefetch") == 0) return ManagedWay::kPrefetch;
  if (strcmp(name, "advise") == 0) return ManagedWay::kAdvise;
  if (strcmp(name, "faults") == 0) return ManagedWay::kFaults;
  log_line("LAMBENT_SHIM_UVM=%s is unknown: managed memory is prefetched", name);
  return ManagedWay::kPrefetch;
}

}  // namespace

ManagedWay managed_way() {
  ManagedWay known = way.load(std::memory_order_relaxed);
  if (known == ManagedWay::kUnread) {
    known = read_way();
    way.store(known, std::memory_order_relaxed);
  }
  return known;
}

bool device_can_manage(Device device) {
  if (device < 0 || device >= kMostDevices) return false;
  Answer answer = can_manage[device].load(std::memory_order_relaxed);
  if (answer == Answer::kUnknown) {
    int supported = 0;
    const auto ask = REAL(cuDeviceGetAttribute, int*, int, Device);
    const bool can = ask(&supported, kAttributeConcurrent, device) == kSuccess && supported != 0;
    answer = can ? Answer::kYes : Answer::kNo;
    if (!can) log_line("device %d cannot prefetch managed memory: it stays plain", device);
    can_manage[device].store(answer, std::memory_order_relaxed);
  }
  return answer == Answer::kYes;
}

uint64_t free_bytes_of_current_device() {
  size_t free_bytes = 0;
  size_t total = 0;
  const auto ask = REAL(cuMemGetInfo_v2, size_t*, size_t*);
  return ask(&free_bytes, &total) == kSuccess ? free_bytes : 0;
}

Status allocate_managed(Device device, uint64_t bytes, uint64_t* base) {
  Address address = 0;
  const auto allocate = REAL(cuMemAllocManaged, Address*, size_t, unsigned);
  const Status status = allocate(&address, bytes, kAttachGlobal);
  if (status != kSuccess) return status;
  *base = address;
  // A wish: without it the memory serves, only less well.
  if (managed_way() != ManagedWay::kFaults) advise_managed(address, bytes, device);
  return status;
}

Status advise_managed(uint64_t base, uint64_t bytes, Device device) {
  const auto advise = REAL(cuMemAdvise, Address, size_t, int, Device);
  return advise(base, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device);
}

void free_managed(uint64_t base) {
  const Status status = REAL(cuMemFree_v2, Address)(base);
  if (status != kSuccess) log_line("freeing managed memory at %#lx failed: %d", base, status);
}

Status prefetch_managed(uint64_t base, uint64_t bytes, Device place, Handle stream) {
  return REAL(cuMemPrefetchAsync, Address, size_t, Device, Handle)(base, bytes, place, stream);
}

Status populate_managed(Device device, uint64_t base, uint64_t bytes) {
  Handle stream = nullptr;
  Status status = REAL(cuStreamCreate, Handle*, unsigned)(&stream, kNonBlocking);
  if (status != kSuccess) return status;
  status = prefetch_managed(base, bytes, device, stream);
  if (status == kSuccess) status = REAL(cuStreamSynchronize, Handle)(stream);
  REAL(cuStreamDestroy_v2, Handle)(stream);
  return status;
}

}  // namespace lambent::shim
