#include "gpu/shim/host_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver_slots.h"
#include "gpu/shim/abi.h"
#include "gpu/shim/driver_mapping.h"
#include "gpu/shim/log.h"

namespace lambent::shim {
namespace {

using device_memory::HostPiece;

// Of one lease: the kernel takes a quarter of a second for a GiB, and who asks waits so long.
constexpr uint64_t kMostOfLease = uint64_t{16} << 30;
constexpr unsigned kPortable = 1;        // CU_MEMHOSTREGISTER_PORTABLE
constexpr int kMemoryTypeAttribute = 2;  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr Status kAlreadyRegistered = 712;

// Neither a child's nor, when this process dumps core, anybody else's business.
void* kept_to_itself(void* memory, uint64_t bytes) {
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, bytes, MADV_DONTFORK);
  madvise(memory, bytes, MADV_DONTDUMP);
  return memory;
}

// A file that is shorter than it was said to be would end the program at the first touch behind.
void* map_lease(int descriptor, uint64_t bytes) {
  struct stat status = {};
  if (bytes == 0 || fstat(descriptor, &status) != 0 ||
      static_cast<uint64_t>(status.st_size) < bytes) {
    log_line("a lease is shorter than it should be");
    return nullptr;
  }
  return kept_to_itself(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0),
                        bytes);
}

void* map_own(uint64_t bytes) {
  return kept_to_itself(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), bytes);
}

bool is_registered(const char* begin) {
  unsigned type = 0;
  const auto ask = REAL(cuPointerGetAttribute, void*, int, Address);
  return ask(&type, kMemoryTypeAttribute, reinterpret_cast<Address>(begin)) == kSuccess;
}

}  // namespace

// Somewhat more than is missing where that is to be had, so that a program that grows and grows
// does not end up with a lease for every little piece.
void* HostMemory::get(uint64_t missing, DeviceLink& link, uint64_t* got) {
  uint64_t exact = rounded_up(missing, kMappingGranularity);
  uint64_t ample = rounded_up(arena_.bytes() / 8, kMappingGranularity);
  *got = exact;
  if (!link.is_configured()) return map_own(exact);
  if (exact > kMostOfLease) exact = kMostOfLease;
  if (ample > kMostOfLease) ample = kMostOfLease;
  int descriptor = ample > exact ? link.lease(ample, got) : -1;
  if (descriptor < 0) descriptor = link.lease(exact, got);
  if (descriptor < 0) return nullptr;
  void* memory = map_lease(descriptor, *got);
  close(descriptor);
  return memory;
}

bool HostMemory::grow_to(uint64_t bytes, DeviceLink& link) {
  while (arena_.bytes() < bytes) {
    uint64_t got = 0;
    void* memory = get(bytes - arena_.bytes(), link, &got);
    if (memory == nullptr) return false;
    if (!arena_.add_segment(static_cast<char*>(memory), got)) {
      munmap(memory, got);
      return false;
    }
  }
  return true;
}

void HostMemory::release(DeviceLink& link) {
  if (arena_.bytes() == 0) return;
  for (uint64_t position = 0; position < arena_.bytes();) {
    const HostPiece segment = arena_.piece(position, UINT64_MAX);
    position += segment.bytes;
    if (is_registered(segment.begin)) REAL(cuMemHostUnregister, void*)(segment.begin);
    munmap(segment.begin, segment.bytes);
  }
  arena_.clear();
  link.return_leases();
}

bool HostMemory::count_offloaded(uint64_t bytes, DeviceLink& link) {
  if (bytes > offloaded_bytes_ && !link.want_offloaded(bytes - offloaded_bytes_)) return false;
  if (bytes < offloaded_bytes_) link.return_offloaded(offloaded_bytes_ - bytes);
  offloaded_bytes_ = bytes;
  return true;
}

void HostMemory::register_all() {
  for (uint64_t position = 0; position < arena_.bytes();) {
    const HostPiece segment = arena_.piece(position, UINT64_MAX);
    position += segment.bytes;
    if (is_registered(segment.begin)) continue;
    const auto lock = REAL(cuMemHostRegister_v2, void*, size_t, unsigned);
    const Status status = lock(segment.begin, segment.bytes, kPortable);
    if (status != kSuccess && status != kAlreadyRegistered) {
      log_line("%lu bytes of host memory stay pageable: %d", segment.bytes, status);
    }
  }
}

}  // namespace lambent::shim
