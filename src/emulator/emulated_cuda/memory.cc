#include "emulator/emulated_cuda/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace lambent::emulated_cuda {

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kAlignment = 512;  // of device addresses
constexpr size_t kArenaBytes = size_t{32} << 20;
constexpr size_t kOwnMappingBytes = size_t{8} << 20;  // from here on: a mapping of its own

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

uintptr_t map_pages(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? 0 : reinterpret_cast<uintptr_t>(memory);
}

// Maps `backing` bytes again and again over `bytes` of addresses.
uintptr_t map_repeated(size_t bytes, size_t backing) {
  int fd = memfd_create("device-memory", MFD_CLOEXEC);
  if (fd < 0) return 0;
  uintptr_t base = ftruncate(fd, static_cast<off_t>(backing)) == 0 ? map_pages(bytes) : 0;
  for (size_t offset = 0; base && offset < bytes; offset += backing) {
    size_t part = std::min(backing, bytes - offset);
    void* at = reinterpret_cast<void*>(base + offset);
    if (mmap(at, part, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
      munmap(reinterpret_cast<void*>(base), bytes);
      base = 0;
    }
  }
  close(fd);
  return base;
}

// Puts `backing` bytes of a new file, again and again, where `bytes` of private pages are, with the
// same contents. The file's descriptor, or -1.
int move_to_file(uintptr_t base, size_t bytes, size_t backing) {
  int descriptor = memfd_create("shared-device-memory", MFD_CLOEXEC);
  if (descriptor < 0) return -1;
  void* there = MAP_FAILED;
  if (ftruncate(descriptor, static_cast<off_t>(backing)) == 0) {
    there = mmap(nullptr, backing, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  if (there == MAP_FAILED) {
    close(descriptor);
    return -1;
  }
  std::memcpy(there, reinterpret_cast<void*>(base), backing);
  munmap(there, backing);
  for (size_t offset = 0; offset < bytes; offset += backing) {
    void* at = reinterpret_cast<void*>(base + offset);
    mmap(at, std::min(backing, bytes - offset), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
         descriptor, 0);
  }
  madvise(reinterpret_cast<void*>(base), bytes, MADV_DONTFORK);
  return descriptor;
}

}  // namespace

std::optional<Allocation> Memory::allocate(size_t bytes, size_t counted_bytes, size_t backing_bytes,
                                           int device, void* context) {
  const MutexLock lock(mutex_);
  backing_bytes = round_up(backing_bytes, kPage);
  size_t reserved = round_up(bytes, kAlignment);
  bool repeated = backing_bytes < bytes && bytes >= kOwnMappingBytes;
  uintptr_t base = repeated                    ? map_repeated(round_up(bytes, kPage), backing_bytes)
                   : bytes >= kOwnMappingBytes ? take_mapping(round_up(bytes, kPage))
                                               : carve(reserved);
  if (!base) return std::nullopt;
  Allocation allocation{
      base,    bytes, counted_bytes, repeated ? backing_bytes : bytes, MemoryKind::kDevice, device,
      context, 0,     next_id_++};
  allocations_[base] = allocation;
  return allocation;
}

std::optional<Allocation> Memory::allocate_host(size_t bytes, unsigned flags, int device,
                                                void* context, MemoryKind kind) {
  const MutexLock lock(mutex_);
  uintptr_t base = map_pages(round_up(bytes, kPage));
  if (!base) return std::nullopt;
  Allocation allocation{base, bytes, 0, bytes, kind, device, context, flags, next_id_++};
  allocations_[base] = allocation;
  return allocation;
}

bool Memory::add(uintptr_t base, size_t bytes, MemoryKind kind, unsigned flags, int device,
                 void* context) {
  const MutexLock lock(mutex_);
  if (overlaps(base, bytes)) return false;
  allocations_[base] = {base, bytes, 0, bytes, kind, device, context, flags, next_id_++};
  return true;
}

void Memory::enter(Allocation allocation) {
  const MutexLock lock(mutex_);
  allocation.id = next_id_++;
  allocations_[allocation.base] = allocation;
}

void Memory::set_access(uintptr_t base, Access access) {
  const MutexLock lock(mutex_);
  auto it = allocations_.find(base);
  if (it != allocations_.end()) it->second.access = access;
}

std::optional<Allocation> Memory::release(uintptr_t base, MemoryKind kind) {
  const MutexLock lock(mutex_);
  auto& from = retired_.count(base) ? retired_ : allocations_;
  auto it = from.find(base);
  if (it == from.end() || it->second.kind != kind) return std::nullopt;
  Allocation allocation = it->second;
  from.erase(it);
  give_back(allocation);
  return allocation;
}

bool Memory::retire(uintptr_t base) {
  const MutexLock lock(mutex_);
  auto it = allocations_.find(base);
  if (it == allocations_.end()) return false;
  MemoryKind kind = it->second.kind;
  if (kind != MemoryKind::kDevice && kind != MemoryKind::kImported) return false;
  retired_.insert(*it);
  allocations_.erase(it);
  return true;
}

uint64_t Memory::release_all(void* context) {
  const MutexLock lock(mutex_);
  uint64_t counted = 0;
  for (auto it = allocations_.begin(); it != allocations_.end();) {
    if (it->second.context != context) {
      ++it;
      continue;
    }
    counted += it->second.counted_bytes;
    give_back(it->second);
    it = allocations_.erase(it);
  }
  return counted;
}

void Memory::hand_over(void* from, void* to) {
  const MutexLock lock(mutex_);
  for (auto& [base, allocation] : allocations_) {
    if (allocation.context == from) allocation.context = to;
  }
}

void Memory::forget_module(uintptr_t base) {
  const MutexLock lock(mutex_);
  auto it = allocations_.find(base);
  if (it != allocations_.end() && it->second.kind == MemoryKind::kModule) allocations_.erase(it);
}

std::optional<SharedPages> Memory::share(const Allocation& allocation) {
  const MutexLock lock(mutex_);
  auto it = allocations_.find(allocation.base);
  if (it == allocations_.end() || it->second.id != allocation.id) return std::nullopt;
  if (allocation.bytes < kOwnMappingBytes) {  // its arena as a whole: blocks share pages
    auto arena = std::prev(arenas_.upper_bound(allocation.base));
    int& descriptor = arena->second.descriptor;
    if (descriptor < 0) {
      descriptor = move_to_file(arena->first, arena->second.bytes, arena->second.bytes);
    }
    if (descriptor < 0) return std::nullopt;
    return SharedPages{descriptor, allocation.base - arena->first};
  }
  int& descriptor = files_.try_emplace(allocation.base, -1).first->second;
  if (descriptor < 0) {
    size_t bytes = round_up(allocation.bytes, kPage);
    descriptor = move_to_file(allocation.base, bytes, round_up(allocation.backing_bytes, kPage));
  }
  if (descriptor < 0) return std::nullopt;
  return SharedPages{descriptor, 0};
}

std::optional<Allocation> Memory::find(uintptr_t address, size_t bytes) const {
  const MutexLock lock(mutex_);
  auto it = allocations_.upper_bound(address);
  if (it == allocations_.begin()) return std::nullopt;
  --it;
  Allocation allocation = it->second;
  size_t offset = address - allocation.base;
  if (offset >= allocation.bytes) return std::nullopt;
  size_t covered = allocation.bytes - offset;
  while (bytes > covered) {
    uintptr_t end = it->first + it->second.bytes;
    ++it;
    if (it == allocations_.end() || it->first != end) return std::nullopt;
    if (it->second.kind != MemoryKind::kMapped || allocation.kind != MemoryKind::kMapped) {
      return std::nullopt;
    }
    allocation.access = std::min(allocation.access, it->second.access);
    covered += it->second.bytes;
  }
  return allocation;
}

uintptr_t Memory::take_mapping(size_t bytes) {
  auto kept = kept_mappings_.find(bytes);
  if (kept == kept_mappings_.end()) return map_pages(bytes);
  uintptr_t base = kept->second;
  kept_mappings_.erase(kept);
  kept_bytes_ -= std::min(kept_bytes_, bytes);
  if (mprotect(reinterpret_cast<void*>(base), bytes, PROT_READ | PROT_WRITE) == 0) return base;
  munmap(reinterpret_cast<void*>(base), bytes);
  return map_pages(bytes);
}

// A program that still uses a freed address meets the same fault as if the pages had gone.
bool Memory::keep_mapping(const Allocation& allocation) {
  size_t bytes = round_up(allocation.bytes, kPage);
  bool whole =
      allocation.kind == MemoryKind::kDevice && allocation.backing_bytes >= allocation.bytes;
  if (!whole || kept_bytes_ + bytes > kMostKeptPageBytes) return false;
  if (mprotect(reinterpret_cast<void*>(allocation.base), bytes, PROT_NONE) != 0) return false;
  kept_mappings_.emplace(bytes, allocation.base);
  kept_bytes_ += bytes;
  return true;
}

uintptr_t Memory::carve(size_t bytes) {
  auto take = [&](Arena& arena) REQUIRES(mutex_) -> uintptr_t {
    for (auto it = arena.free.begin(); it != arena.free.end(); ++it) {
      auto [address, size] = *it;
      if (size < bytes) continue;
      arena.free.erase(it);
      if (size > bytes) arena.free[address + bytes] = size - bytes;
      kept_bytes_ -= std::min(kept_bytes_, bytes);
      return address;
    }
    return 0;
  };
  for (auto& [base, arena] : arenas_) {
    if (uintptr_t address = take(arena)) return address;
  }
  uintptr_t base = map_pages(kArenaBytes);
  if (!base) return 0;
  Arena& arena = arenas_[base];
  arena.bytes = kArenaBytes;
  arena.free[base] = kArenaBytes;
  return take(arena);
}

void Memory::give_back(const Allocation& allocation) {
  if (allocation.kind == MemoryKind::kImported || allocation.kind == MemoryKind::kOpened) {
    uintptr_t begin = allocation.base / kPage * kPage;
    munmap(reinterpret_cast<void*>(begin), allocation.base + allocation.bytes - begin);
    return;
  }
  bool ours = allocation.kind == MemoryKind::kDevice ||
              allocation.kind == MemoryKind::kHostAllocated ||
              allocation.kind == MemoryKind::kManaged;
  if (!ours) return;
  bool carved = allocation.kind == MemoryKind::kDevice && allocation.bytes < kOwnMappingBytes;
  if (!carved) {
    auto file = files_.find(allocation.base);
    if (file != files_.end()) {
      close(file->second);
      files_.erase(file);
    } else if (keep_mapping(allocation)) {
      return;
    }
    munmap(reinterpret_cast<void*>(allocation.base), round_up(allocation.bytes, kPage));
    return;
  }
  size_t size = round_up(allocation.bytes, kAlignment);
  uintptr_t begin = round_up(allocation.base, kPage);
  uintptr_t end = (allocation.base + size) / kPage * kPage;
  if (kept_bytes_ + size <= kMostKeptPageBytes) {
    kept_bytes_ += size;
  } else if (end > begin) {
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  auto arena = std::prev(arenas_.upper_bound(allocation.base));
  auto& free = arena->second.free;
  auto it = free.emplace(allocation.base, size).first;
  auto next = std::next(it);
  if (next != free.end() && it->first + it->second == next->first) {
    it->second += next->second;
    free.erase(next);
  }
  if (it == free.begin()) return;
  auto previous = std::prev(it);
  if (previous->first + previous->second == it->first) {
    previous->second += it->second;
    free.erase(it);
  }
}

bool Memory::overlaps(uintptr_t base, size_t bytes) const {
  auto it = allocations_.lower_bound(base + bytes);
  if (it == allocations_.begin()) return false;
  const Allocation& before = std::prev(it)->second;
  return before.base + before.bytes > base;
}

}  // namespace lambent::emulated_cuda
