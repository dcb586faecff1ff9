// All memory pools of one process: each device's default pool and its current one, those that the
// program made, and those it imported. Locks for itself; any thread.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/base/mutex.h"
#include "emulator/emulated_cuda/memory.h"
#include "emulator/emulated_cuda/pool.h"

namespace lambent::emulated_cuda {

class Process;

// What an exportable pool's file begins with, and what a pointer is exported as.
struct ExportedPool {
  uint64_t magic;
  uint64_t node;
  uint64_t id;
  int32_t device;
  uint32_t handle_types;
};
struct ExportedPointer {
  uint64_t magic;
  uint64_t pool;
  uint64_t offset;
  uint64_t bytes;
};

class Pools {
 public:
  explicit Pools(Process& process) : process_(process) {}

  // Device -1: the host.
  CUmemoryPool default_of(int device);
  CUmemoryPool current_of(int device);
  CUresult set_current(int device, CUmemoryPool handle);
  // Makes a pool; properties are checked already. Null if the system has no memory.
  CUmemoryPool create(const CUmemPoolProps& properties, int device);
  CUresult destroy(CUmemoryPool handle);

  // Calls `use(Pool&)` under the lock; CUDA_ERROR_INVALID_VALUE if there is no such pool here.
  template <class Use>
  CUresult use(CUmemoryPool handle, Use use) {
    const MutexLock lock(mutex_);
    Pool* pool = find(handle);
    return pool ? use(*pool) : CUDA_ERROR_INVALID_VALUE;
  }
  bool imported(CUmemoryPool handle) const;
  // Who may access a pool of this process, or one that it imported: by(device where it lives, the
  // flags of each location).
  template <class Use>
  CUresult use_access(CUmemoryPool handle, Use by) {
    const MutexLock lock(mutex_);
    if (Pool* pool = find(handle)) return by(pool->device, pool->access);
    auto foreign = imported_.find(handle);
    if (foreign == imported_.end()) return CUDA_ERROR_INVALID_VALUE;
    return by(foreign->second->pool.device, foreign->second->access);
  }

  // Allocates for use in `stream`, which has to wait for `after` if that is set.
  CUresult allocate(CUmemoryPool handle, size_t bytes, uint64_t stream, void* context,
                    uintptr_t* address, CompletionPtr* after);
  // Freeing, in the two steps of Pool. begin_free is false if it is no pool's memory.
  bool begin_free(uintptr_t address);
  void end_free(uintptr_t address, uint64_t stream, CompletionPtr end);
  CUmemoryPool pool_of(uintptr_t address) const;

  // The host has waited for something.
  void observe() {
    if (unobserved_.load(std::memory_order_relaxed)) observe_all();
  }
  // Gives back whatever no allocation needs, because memory is short.
  void trim_all();
  // A context is gone: so is what it allocated.
  void forget(void* context);

  CUresult export_pool(CUmemoryPool handle, int* descriptor);
  CUresult import_pool(int descriptor, CUmemoryPool* handle);
  CUresult export_pointer(uintptr_t address, ExportedPointer* exported) const;
  CUresult import_pointer(CUmemoryPool handle, const ExportedPointer& exported, void* context,
                          uintptr_t* address);

 private:
  struct Imported {
    int descriptor;
    ExportedPool pool;
    decltype(Pool::access) access{};
  };
  struct Owned {
    Pool* pool;
    size_t bytes;
  };
  Pool* find(CUmemoryPool handle) REQUIRES(mutex_);
  Pool* make(const CUmemPoolProps& properties, int device) REQUIRES(mutex_);
  void observe_all();
  void sweep() REQUIRES(mutex_);
  uint64_t node_token();

  Process& process_;
  mutable Mutex mutex_;
  std::unordered_map<const void*, std::unique_ptr<Pool>> pools_ GUARDED_BY(mutex_);
  // Destroyed, with allocations that are not.
  std::vector<std::unique_ptr<Pool>> leaving_ GUARDED_BY(mutex_);
  std::unordered_map<const void*, std::unique_ptr<Imported>> imported_ GUARDED_BY(mutex_);
  std::map<uintptr_t, Owned> owned_ GUARDED_BY(mutex_);  // allocations
  std::map<int, Pool*> defaults_ GUARDED_BY(mutex_), currents_ GUARDED_BY(mutex_);
  std::unordered_map<const Pool*, uint64_t> ids_ GUARDED_BY(mutex_);  // of exportable ones
  std::atomic<bool> unobserved_{false};
};

}  // namespace lambent::emulated_cuda
