#include "emulator/emulated_cuda/pools.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "emulator/emulated_cuda/process.h"

namespace lambent::emulated_cuda {

namespace {

constexpr uint64_t kPoolMagic = 0x454d55504f4f4c31;     // "EMUPOOL1"
constexpr uint64_t kPointerMagic = 0x454d55504f494e31;  // "EMUPOIN1"
constexpr uint64_t kPage = 4096;

CUmemoryPool as_handle(const void* pool) {
  return reinterpret_cast<CUmemoryPool>(const_cast<void*>(pool));
}

}  // namespace

CUmemoryPool Pools::default_of(int device) {
  const MutexLock lock(mutex_);
  Pool*& pool = defaults_[device];
  if (!pool) {
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {device < 0 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
                           std::max(0, process_.ordinal_of(device))};
    pool = make(properties, device);
  }
  return as_handle(pool);
}

CUmemoryPool Pools::current_of(int device) {
  {
    const MutexLock lock(mutex_);
    auto it = currents_.find(device);
    if (it != currents_.end()) return as_handle(it->second);
  }
  return default_of(device);
}

CUresult Pools::set_current(int device, CUmemoryPool handle) {
  const MutexLock lock(mutex_);
  Pool* pool = find(handle);
  if (!pool || pool->device != device) return CUDA_ERROR_INVALID_VALUE;
  currents_[device] = pool;
  return CUDA_SUCCESS;
}

CUmemoryPool Pools::create(const CUmemPoolProps& properties, int device) {
  const MutexLock lock(mutex_);
  return as_handle(make(properties, device));
}

Pool* Pools::make(const CUmemPoolProps& properties, int device) {
  PoolSource source;
  source.count = [this, device](size_t bytes) {
    if (device >= 0 && !process_.claim_bytes(device, bytes)) return false;
    if (device >= 0) process_.node->spend(process_.spec(device).allocation_ns);
    return true;
  };
  source.uncount = [this, device](size_t bytes) {
    if (device >= 0) process_.uncount_bytes(device, bytes);
  };
  bool exportable = properties.handleTypes != CU_MEM_HANDLE_TYPE_NONE;
  if (process_.settings.model_mode && device >= 0 && !exportable) {
    source.memory_scale = process_.node->spec().memory_scale;
  }
  auto backing = process_.backing;
  if (exportable) {
    backing = std::make_shared<Backing>();
    if (!backing->take(1)) return nullptr;  // the first block is for what it begins with
  }
  auto pool = std::make_unique<Pool>(std::move(source), std::move(backing), properties, device);
  Pool* made = pool.get();
  pools_[made] = std::move(pool);
  if (exportable) ids_[made] = process_.generation << 32 | process_.next_id++;
  return made;
}

Pool* Pools::find(CUmemoryPool handle) {
  auto it = pools_.find(handle);
  return it == pools_.end() ? nullptr : it->second.get();
}

bool Pools::imported(CUmemoryPool handle) const {
  const MutexLock lock(mutex_);
  return imported_.count(handle) != 0;
}

CUresult Pools::destroy(CUmemoryPool handle) {
  const MutexLock lock(mutex_);
  auto foreign = imported_.find(handle);
  if (foreign != imported_.end()) {  // what was imported from it stays
    close(foreign->second->descriptor);
    imported_.erase(foreign);
    return CUDA_SUCCESS;
  }
  auto it = pools_.find(handle);
  if (it == pools_.end()) return CUDA_ERROR_INVALID_VALUE;
  Pool* pool = it->second.get();
  auto is_it = [&](const auto& entry) { return entry.second == pool; };
  if (std::any_of(defaults_.begin(), defaults_.end(), is_it)) return CUDA_ERROR_INVALID_VALUE;
  std::erase_if(currents_, is_it);
  ids_.erase(pool);
  leaving_.push_back(std::move(it->second));
  pools_.erase(it);
  unobserved_ = true;
  sweep();
  return CUDA_SUCCESS;
}

CUresult Pools::allocate(CUmemoryPool handle, size_t bytes, uint64_t stream, void* context,
                         uintptr_t* address, CompletionPtr* after) {
  const MutexLock lock(mutex_);
  Pool* pool = find(handle);
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  auto taken = pool->allocate(bytes, stream, context);
  if (!taken) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation entry{};
  entry.base = taken->address;
  entry.bytes = bytes;
  entry.backing_bytes = std::min(bytes, taken->backing_bytes);
  entry.kind = MemoryKind::kPool;
  entry.device = pool->device;
  entry.context = context;
  entry.flags = pool->properties.handleTypes;
  process_.memory.enter(entry);
  owned_[taken->address] = {pool, bytes};
  *address = taken->address;
  *after = std::move(taken->after);
  return CUDA_SUCCESS;
}

bool Pools::begin_free(uintptr_t address) {
  const MutexLock lock(mutex_);
  auto it = owned_.find(address);
  if (it == owned_.end() || !it->second.pool->begin_free(address)) return false;
  process_.memory.release(address, MemoryKind::kPool);
  return true;
}

void Pools::end_free(uintptr_t address, uint64_t stream, CompletionPtr end) {
  const MutexLock lock(mutex_);
  auto it = owned_.find(address);
  if (it == owned_.end()) return;
  Pool* pool = it->second.pool;
  owned_.erase(it);
  pool->end_free(address, stream, std::move(end));
  unobserved_ = true;
}

CUmemoryPool Pools::pool_of(uintptr_t address) const {
  const MutexLock lock(mutex_);
  auto it = owned_.upper_bound(address);
  if (it == owned_.begin()) return nullptr;
  --it;
  return address - it->first < it->second.bytes ? as_handle(it->second.pool) : nullptr;
}

void Pools::observe_all() {
  const MutexLock lock(mutex_);
  unobserved_ = false;
  for (auto& [handle, pool] : pools_) {
    pool->observe();
    if (pool->frees_pending()) unobserved_ = true;
  }
  sweep();
}

void Pools::trim_all() {
  const MutexLock lock(mutex_);
  for (auto& [handle, pool] : pools_) pool->trim(0);
  sweep();
}

// Destroyed pools whose last allocation has been freed.
void Pools::sweep() {
  std::erase_if(leaving_, [](const auto& pool) {
    pool->trim(0);
    return pool->idle();
  });
  if (!leaving_.empty()) unobserved_ = true;
}

void Pools::forget(void* context) {
  const MutexLock lock(mutex_);
  auto forget_in = [&](Pool& pool) REQUIRES(mutex_) {
    for (uintptr_t address : pool.forget(context)) {
      process_.memory.release(address, MemoryKind::kPool);
      owned_.erase(address);
    }
    pool.observe();
  };
  for (auto& [handle, pool] : pools_) forget_in(*pool);
  for (auto& pool : leaving_) forget_in(*pool);
  sweep();
}

uint64_t Pools::node_token() {
  Node::Guard guard(*process_.node);
  return static_cast<uint64_t>(guard->epoch_real_ns);
}

CUresult Pools::export_pool(CUmemoryPool handle, int* descriptor) {
  uint64_t node = node_token();
  const MutexLock lock(mutex_);
  Pool* pool = find(handle);
  if (!pool || !ids_.count(pool)) return CUDA_ERROR_INVALID_VALUE;
  ExportedPool exported{kPoolMagic, node, ids_[pool], pool->device,
                        static_cast<uint32_t>(pool->properties.handleTypes)};
  int file = pool->backing()->descriptor();
  if (pwrite(file, &exported, sizeof exported, 0) != sizeof exported) {
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  *descriptor = fcntl(file, F_DUPFD_CLOEXEC, 0);
  return *descriptor < 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

CUresult Pools::import_pool(int descriptor, CUmemoryPool* handle) {
  ExportedPool exported;
  if (pread(descriptor, &exported, sizeof exported, 0) != sizeof exported ||
      exported.magic != kPoolMagic) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (exported.node != node_token()) return CUDA_ERROR_NOT_SUPPORTED;
  if (exported.device >= 0 && process_.ordinal_of(exported.device) < 0) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  int own = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return CUDA_ERROR_INVALID_VALUE;
  auto imported = std::make_unique<Imported>(Imported{own, exported, {}});
  imported->access[exported.device < 0 ? kMaxPartitions : exported.device] =
      CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  *handle = as_handle(imported.get());
  const MutexLock lock(mutex_);
  imported_[*handle] = std::move(imported);
  return CUDA_SUCCESS;
}

CUresult Pools::export_pointer(uintptr_t address, ExportedPointer* exported) const {
  const MutexLock lock(mutex_);
  auto it = owned_.find(address);
  if (it == owned_.end()) return CUDA_ERROR_INVALID_VALUE;
  auto id = ids_.find(it->second.pool);
  auto offset = it->second.pool->file_offset(address);
  if (id == ids_.end() || !offset) return CUDA_ERROR_INVALID_VALUE;
  *exported = {kPointerMagic, id->second, *offset, it->second.bytes};
  return CUDA_SUCCESS;
}

CUresult Pools::import_pointer(CUmemoryPool handle, const ExportedPointer& exported, void* context,
                               uintptr_t* address) {
  const MutexLock lock(mutex_);
  auto it = imported_.find(handle);
  if (it == imported_.end() || exported.magic != kPointerMagic) return CUDA_ERROR_INVALID_VALUE;
  const Imported& pool = *it->second;
  struct stat info;
  if (exported.pool != pool.pool.id || fstat(pool.descriptor, &info) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  uint64_t file_bytes = static_cast<uint64_t>(info.st_size);
  if (exported.bytes == 0 || exported.offset > file_bytes ||
      exported.bytes > file_bytes - exported.offset) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  uint64_t before = exported.offset % kPage;
  void* at = mmap(nullptr, exported.bytes + before, PROT_READ | PROT_WRITE, MAP_SHARED,
                  pool.descriptor, static_cast<off_t>(exported.offset - before));
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  madvise(at, exported.bytes + before, MADV_DONTFORK);
  Allocation entry{};
  entry.base = reinterpret_cast<uintptr_t>(at) + before;
  entry.bytes = entry.backing_bytes = exported.bytes;
  entry.kind = MemoryKind::kImported;
  entry.device = pool.pool.device;
  entry.context = context;
  process_.memory.enter(entry);
  *address = entry.base;
  return CUDA_SUCCESS;
}

}  // namespace lambent::emulated_cuda
