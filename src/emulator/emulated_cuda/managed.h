// The managed memory of one process: where it lies, what moving it costs, and how much of the
// devices it takes. Kernels, copies and prefetches say what they touch. Locks for itself; any
// thread.
#pragma once

#include <atomic>
#include <functional>
#include <set>

#include "core/base/mutex.h"
#include "emulator/emulated_cuda/managed_residency.h"
#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_cuda {

class Process;
struct Context;
struct KernelLaunch;

// A prefetch, a discard, or a discard that is followed by a prefetch, of one range.
struct MemoryMove {
  CUdeviceptr address;
  size_t bytes;
  bool discard;
  bool prefetch;
  int place;  // of the prefetch
};

class Managed {
 public:
  explicit Managed(Process& process);

  CUresult allocate(Context& context, size_t bytes, unsigned flags, CUdeviceptr* address);
  bool free(uintptr_t address);
  void forget(const void* context);  // what it allocated is freed elsewhere
  bool covers(uintptr_t address, size_t bytes) const;
  bool any() const { return count_.load(std::memory_order_acquire) > 0; }

  // The kernel touches all of every managed allocation that a parameter points into; it may begin
  // at the instant that is returned.
  int64_t before_kernel(const Context& context, const KernelLaunch& launch, int64_t begin_ns);
  // The same for one range.
  int64_t touch(uintptr_t address, size_t bytes, int place, bool write, int64_t begin_ns);
  // Which memory a copy from or to the address runs through: a device, as the program numbers it,
  // or the host.
  int place_of(uintptr_t address) const;
  int64_t move(const MemoryMove& move, int64_t begin_ns);
  // Other memory wants room on the device, as the node numbers it: carries to the host what the
  // device used longest ago until `fits`. False if it never does. Returns when the room is there.
  bool make_room(int partition, const std::function<bool()>& fits);

  void advise(uintptr_t address, size_t bytes, const std::function<void(Advice&)>& change);
  Advice advice(uintptr_t address, size_t bytes) const;

 private:
  int64_t time_of(const Traffic& traffic, int place, int64_t begin_ns) const;

  Process& process_;
  mutable Mutex mutex_;
  struct Range {
    size_t bytes;
    const void* context;
  };
  ManagedResidency managed_residency_ GUARDED_BY(mutex_);
  std::map<uintptr_t, Range> ranges_ GUARDED_BY(mutex_);
  std::atomic<int> count_{0};
};

}  // namespace lambent::emulated_cuda
