// The address ranges that one process has reserved, what is mapped into them, and the handles of
// the memory that is mapped: the rules of cuMemAddressReserve, cuMemMap and their kin. Mapped
// memory is entered into the process's Memory, so that copies and questions find it. Locks for
// itself; any thread.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "core/base/mutex.h"
#include "emulator/emulated_cuda/memory.h"
#include "emulator/emulated_cuda/physical_memory.h"
#include "emulator/emulated_node/mig.h"
#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_cuda {

constexpr size_t kMappingGranularityBytes = size_t{2} << 20;
constexpr int kHostLocation = emulated_node::kMaxPartitions;  // beside the numbers of partitions

struct AddressRange {
  uintptr_t base;
  size_t bytes;
};

struct AccessChange {
  int location;  // a partition of the node, or kHostLocation
  CUmemAccess_flags flags;
};

class VirtualMemory {
 public:
  explicit VirtualMemory(Memory& memory) : memory_(memory) {}

  CUresult reserve(size_t bytes, size_t alignment, uintptr_t hint, uintptr_t* base);
  // Refused while anything is mapped there.
  CUresult free(uintptr_t base, size_t bytes);
  std::optional<AddressRange> reservation_of(uintptr_t address) const;

  // A new handle with one reference.
  CUmemGenericAllocationHandle add(std::shared_ptr<PhysicalMemory> memory);
  std::shared_ptr<PhysicalMemory> find(CUmemGenericAllocationHandle handle) const;
  CUresult release(CUmemGenericAllocationHandle handle);
  // One more reference to the handle that the memory at `address` was mapped by.
  CUresult retain(uintptr_t address, CUmemGenericAllocationHandle* handle);
  // The memory of this process that is known to the node as `shared`, if there is any.
  std::shared_ptr<PhysicalMemory> find_shared(emulated_node::SharedHandle shared) const;

  CUresult map(uintptr_t address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle);
  // Whole mappings only, one or several that adjoin.
  CUresult unmap(uintptr_t address, size_t bytes);
  bool is_mapped(uintptr_t address, size_t bytes) const;
  CUresult set_access(uintptr_t address, size_t bytes, std::span<const AccessChange> changes);
  CUresult access(int location, uintptr_t address, unsigned long long* flags) const;

 private:
  struct Mapping {
    size_t bytes;
    CUmemGenericAllocationHandle handle;
    std::shared_ptr<PhysicalMemory> memory;
    std::array<uint8_t, kHostLocation + 1> access{};  // CUmemAccess_flags
  };
  struct Handle {
    std::shared_ptr<PhysicalMemory> memory;
    int references;
  };
  using Mappings = std::map<uintptr_t, Mapping>;

  std::optional<AddressRange> reservation_at(uintptr_t address) const REQUIRES(mutex_);
  Mappings::const_iterator mapping_of(uintptr_t address) const REQUIRES(mutex_);
  bool covers_whole_mappings(uintptr_t address, size_t bytes) const REQUIRES(mutex_);

  Memory& memory_;
  mutable Mutex mutex_;
  std::map<uintptr_t, size_t> reservations_ GUARDED_BY(mutex_);
  Mappings mappings_ GUARDED_BY(mutex_);
  std::unordered_map<CUmemGenericAllocationHandle, Handle> handles_ GUARDED_BY(mutex_);
  CUmemGenericAllocationHandle next_handle_ GUARDED_BY(mutex_) = 1;
};

}  // namespace lambent::emulated_cuda
