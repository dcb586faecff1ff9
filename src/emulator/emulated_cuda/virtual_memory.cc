#include "emulator/emulated_cuda/virtual_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <vector>

namespace lambent::emulated_cuda {

namespace {

constexpr size_t kPage = 4096;

// Addresses that nothing may touch, over whatever is there if `at` is given.
void* reserve_pages(void* at, size_t bytes, int flags) {
  void* memory =
      mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

uintptr_t reserve_aligned(size_t bytes, size_t alignment) {
  if (bytes > SIZE_MAX - alignment) return 0;
  void* memory = reserve_pages(nullptr, bytes + alignment, 0);
  if (!memory) return 0;
  uintptr_t begin = reinterpret_cast<uintptr_t>(memory);
  uintptr_t base = (begin + alignment - 1) & ~(alignment - 1);
  if (base > begin) munmap(memory, base - begin);
  uintptr_t end = begin + bytes + alignment;
  if (end > base + bytes) munmap(reinterpret_cast<void*>(base + bytes), end - base - bytes);
  return base;
}

bool is_multiple(size_t value, size_t unit) { return value % unit == 0; }

}  // namespace

CUresult VirtualMemory::reserve(size_t bytes, size_t alignment, uintptr_t hint, uintptr_t* base) {
  if (bytes == 0 || !is_multiple(bytes, kPage) || !is_multiple(hint, kPage)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (alignment & (alignment - 1)) return CUDA_ERROR_INVALID_VALUE;
  alignment = std::max(alignment, kMappingGranularityBytes);
  const MutexLock lock(mutex_);
  *base = 0;
  if (hint && is_multiple(hint, alignment)) {
    void* wanted = reinterpret_cast<void*>(hint);
    void* got = reserve_pages(wanted, bytes, MAP_FIXED_NOREPLACE);
    if (got == wanted) {
      *base = hint;
    } else if (got) {
      munmap(got, bytes);  // an old kernel takes it as a mere hint
    }
  }
  if (*base == 0) *base = reserve_aligned(bytes, alignment);
  if (*base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  reservations_[*base] = bytes;
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::free(uintptr_t base, size_t bytes) {
  const MutexLock lock(mutex_);
  auto it = reservations_.find(base);
  if (it == reservations_.end() || it->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  auto mapped = mappings_.lower_bound(base);
  if (mapped != mappings_.end() && mapped->first < base + bytes) return CUDA_ERROR_INVALID_VALUE;
  munmap(reinterpret_cast<void*>(base), bytes);
  reservations_.erase(it);
  return CUDA_SUCCESS;
}

std::optional<AddressRange> VirtualMemory::reservation_of(uintptr_t address) const {
  const MutexLock lock(mutex_);
  return reservation_at(address);
}

std::optional<AddressRange> VirtualMemory::reservation_at(uintptr_t address) const {
  auto it = reservations_.upper_bound(address);
  if (it == reservations_.begin()) return std::nullopt;
  --it;
  if (address - it->first >= it->second) return std::nullopt;
  return AddressRange{it->first, it->second};
}

CUmemGenericAllocationHandle VirtualMemory::add(std::shared_ptr<PhysicalMemory> memory) {
  const MutexLock lock(mutex_);
  handles_[next_handle_] = {std::move(memory), 1};
  return next_handle_++;
}

std::shared_ptr<PhysicalMemory> VirtualMemory::find(CUmemGenericAllocationHandle handle) const {
  const MutexLock lock(mutex_);
  auto it = handles_.find(handle);
  return it == handles_.end() ? nullptr : it->second.memory;
}

CUresult VirtualMemory::release(CUmemGenericAllocationHandle handle) {
  std::shared_ptr<PhysicalMemory> last;  // released outside the lock
  const MutexLock lock(mutex_);
  auto it = handles_.find(handle);
  if (it == handles_.end()) return CUDA_ERROR_INVALID_VALUE;
  if (--it->second.references > 0) return CUDA_SUCCESS;
  last = std::move(it->second.memory);
  handles_.erase(it);
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::retain(uintptr_t address, CUmemGenericAllocationHandle* handle) {
  const MutexLock lock(mutex_);
  auto mapping = mapping_of(address);
  if (mapping == mappings_.end()) return CUDA_ERROR_INVALID_VALUE;
  *handle = mapping->second.handle;
  auto [it, added] = handles_.try_emplace(*handle, Handle{mapping->second.memory, 0});
  it->second.references++;
  return CUDA_SUCCESS;
}

std::shared_ptr<PhysicalMemory> VirtualMemory::find_shared(
    emulated_node::SharedHandle shared) const {
  const MutexLock lock(mutex_);
  auto is_it = [&](const PhysicalMemory& memory) {
    return shared.id != 0 && memory.shared.id == shared.id;
  };
  for (const auto& [handle, entry] : handles_) {
    if (is_it(*entry.memory)) return entry.memory;
  }
  for (const auto& [address, mapping] : mappings_) {
    if (is_it(*mapping.memory)) return mapping.memory;
  }
  return nullptr;
}

CUresult VirtualMemory::map(uintptr_t address, size_t bytes, size_t offset,
                            CUmemGenericAllocationHandle handle) {
  constexpr size_t kUnit = kMappingGranularityBytes;
  if (bytes == 0 || !is_multiple(bytes, kUnit) || !is_multiple(address, kUnit)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (offset != 0) return CUDA_ERROR_INVALID_VALUE;  // as CUDA has it so far
  const MutexLock lock(mutex_);
  auto reservation = reservation_at(address);
  if (!reservation || bytes > reservation->bytes - (address - reservation->base)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto found = handles_.find(handle);
  if (found == handles_.end()) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<PhysicalMemory>& memory = found->second.memory;
  if (bytes > memory->bytes()) return CUDA_ERROR_INVALID_VALUE;
  auto after = mappings_.lower_bound(address);
  if (after != mappings_.end() && after->first < address + bytes) return CUDA_ERROR_INVALID_VALUE;
  if (mapping_of(address) != mappings_.end()) return CUDA_ERROR_INVALID_VALUE;
  if (!memory->map(address, offset, bytes)) {
    reserve_pages(reinterpret_cast<void*>(address), bytes, MAP_FIXED);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  mappings_[address] = {bytes, handle, memory, {}};
  Allocation entry{};
  entry.base = address;
  entry.bytes = bytes;
  entry.backing_bytes = std::min(bytes, memory->backing_bytes());
  entry.kind = MemoryKind::kMapped;
  entry.device = memory->device();
  entry.flags = memory->properties().requestedHandleTypes;
  entry.access = Access::kNone;
  memory_.enter(entry);
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::unmap(uintptr_t address, size_t bytes) {
  std::vector<std::shared_ptr<PhysicalMemory>> gone;  // released outside the lock
  const MutexLock lock(mutex_);
  if (!covers_whole_mappings(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  for (auto it = mappings_.find(address); it != mappings_.end() && it->first < address + bytes;) {
    memory_.release(it->first, MemoryKind::kMapped);
    reserve_pages(reinterpret_cast<void*>(it->first), it->second.bytes, MAP_FIXED);
    gone.push_back(std::move(it->second.memory));
    it = mappings_.erase(it);
  }
  return CUDA_SUCCESS;
}

bool VirtualMemory::is_mapped(uintptr_t address, size_t bytes) const {
  const MutexLock lock(mutex_);
  return covers_whole_mappings(address, bytes);
}

CUresult VirtualMemory::set_access(uintptr_t address, size_t bytes,
                                   std::span<const AccessChange> changes) {
  const MutexLock lock(mutex_);
  if (!covers_whole_mappings(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  for (auto it = mappings_.find(address); it != mappings_.end() && it->first < address + bytes;
       ++it) {
    Mapping& mapping = it->second;
    for (const AccessChange& change : changes) mapping.access[change.location] = change.flags;
    int anyone = 0;  // the host's pages cannot tell one device from another
    for (uint8_t flags : mapping.access) anyone |= flags;
    int protection = anyone == CU_MEM_ACCESS_FLAGS_PROT_NONE   ? PROT_NONE
                     : anyone == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ
                                                               : PROT_READ | PROT_WRITE;
    if (mprotect(reinterpret_cast<void*>(it->first), mapping.bytes, protection) != 0) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memory_.set_access(it->first, static_cast<Access>(anyone));
  }
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::access(int location, uintptr_t address, unsigned long long* flags) const {
  const MutexLock lock(mutex_);
  auto mapping = mapping_of(address);
  if (mapping == mappings_.end()) return CUDA_ERROR_INVALID_VALUE;
  *flags = mapping->second.access[location];
  return CUDA_SUCCESS;
}

VirtualMemory::Mappings::const_iterator VirtualMemory::mapping_of(uintptr_t address) const {
  auto it = mappings_.upper_bound(address);
  if (it == mappings_.begin()) return mappings_.end();
  --it;
  return address - it->first < it->second.bytes ? it : mappings_.end();
}

bool VirtualMemory::covers_whole_mappings(uintptr_t address, size_t bytes) const {
  if (bytes == 0) return false;
  size_t covered = 0;
  while (covered < bytes) {
    auto it = mappings_.find(address + covered);
    if (it == mappings_.end()) return false;
    covered += it->second.bytes;
  }
  return covered == bytes;
}

}  // namespace lambent::emulated_cuda
