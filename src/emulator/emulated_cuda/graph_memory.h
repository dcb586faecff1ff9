// The memory of allocation nodes: addresses that stay the same in every launch, device memory that
// is counted from the first launch on and kept for the next until it is trimmed. What is allocated
// and freed follows the order in which launches and frees are submitted. Locks for itself.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "core/base/mutex.h"
#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_cuda {

class Process;
struct Context;

class GraphMemory {
 public:
  explicit GraphMemory(Process& process) : process_(process) {}

  // Reserves addresses for an allocation node. Held until the graph and everything made from it is
  // gone and the memory is not allocated: `Hold` is one reason to keep them.
  using Hold = std::shared_ptr<const void>;
  CUresult reserve(Context& context, int device, size_t bytes, uint64_t graph_id,
                   CUdeviceptr* address, Hold* hold);
  // A free node joins a graph: the address must come from an allocation node, a graph may free it
  // once, and either the graph that allocates it or others.
  CUresult add_free_node(CUdeviceptr address, uint64_t graph_id);

  // A launch allocates: counts the memory if it is not kept from before. Out of memory, or
  // CUDA_ERROR_INVALID_VALUE if it is allocated already.
  CUresult allocate(CUdeviceptr address);
  // Frees what a launch allocated; false if the address is none of ours, or is free. The addresses
  // stay until `until` goes: work that is still queued may use them.
  bool free(CUdeviceptr address, Hold* until);
  bool known(CUdeviceptr address) const;
  bool allocated(CUdeviceptr address) const;

  // What is kept without being allocated goes back to the device.
  void trim(int device);
  // A context is gone with everything in it.
  void forget(const void* context);

  CUresult get(int device, CUgraphMem_attribute attribute, uint64_t* value) const;
  CUresult reset_high(int device, CUgraphMem_attribute attribute);

 private:
  struct Block {
    uint64_t bytes;
    int device;
    const void* context;
    bool counted = false;    // takes memory of the device
    bool allocated = false;  // between allocation and free
    uint64_t id = 0;
    uint64_t graph_id = 0;        // that allocates it
    std::set<uint64_t> freed_by;  // graphs with free nodes of it
    int holds = 0;
  };
  struct Totals {
    uint64_t used = 0, used_high = 0, reserved = 0, reserved_high = 0;
  };
  Hold hold(CUdeviceptr address, Block& block) REQUIRES(mutex_);
  void release(CUdeviceptr address, uint64_t id);
  void uncount(Block& block) REQUIRES(mutex_);
  void erase_if_unused(std::map<CUdeviceptr, Block>::iterator it) REQUIRES(mutex_);

  Process& process_;
  mutable Mutex mutex_;
  std::map<CUdeviceptr, Block> blocks_ GUARDED_BY(mutex_);
  std::map<int, Totals> totals_ GUARDED_BY(mutex_);
  uint64_t next_id_ GUARDED_BY(mutex_) = 1;
};

}  // namespace lambent::emulated_cuda
