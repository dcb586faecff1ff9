// OwnMappings: memory that the program makes with cuMemCreate and maps by itself. The program gets
// handles of ours, so that what they stand for can be released and made again while it moves. Any
// thread; the driver is called by the hooks, under a GateScope.
#pragma once

#include <stdint.h>

#include "core/base/plain_mutex.h"
#include "gpu/cuda_abi/driver_types.h"
#include "gpu/device_memory/address_table.h"
#include "gpu/shim/abi.h"

namespace lambent::shim {

// Physical memory, by our handle.
struct OwnPhysical {
  uint64_t base = 0;   // the handle
  uint64_t bytes = 1;  // of handles, that is
  uint64_t real = 0;   // the driver's handle; zero while the memory is out
  uint64_t size = 0;   // in bytes
  CUmemAllocationProp properties = {};
  unsigned long long flags = 0;
  uint32_t references = 0;  // releases to come
  uint32_t mappings = 0;
  uint64_t way = 0;          // a mapping of the whole that was open to its device, if there was one
  bool stays = false;        // another process has it too, or in a form that is not remembered
  Handle context = nullptr;  // that was current when it was made
};

// Where it is mapped, and who may use it there.
struct OwnMapping {
  static constexpr unsigned kMostAccesses = 8;
  uint64_t base = 0;
  uint64_t bytes = 0;
  uint64_t physical = 0;  // our handle
  CUmemAccessDesc accesses[kMostAccesses] = {};
  uint32_t access_count = 0;
};

class OwnMappings {
 public:
  OwnMappings() = default;
  OwnMappings(const OwnMappings&) = delete;
  OwnMappings& operator=(const OwnMappings&) = delete;

  // Whether memory with these properties can be made again: it gets a handle of ours.
  static bool can_move(const CUmemAllocationProp& properties);
  // Our handle for what the driver has made; 0 if there is no memory to remember it.
  uint64_t add(uint64_t real, uint64_t size, const CUmemAllocationProp& properties,
               unsigned long long flags, Handle context);
  // The driver's handle for one of ours; any other is the driver's already. `stays`: from now on it
  // must remain the same.
  uint64_t real_of(uint64_t handle, bool stays);
  bool properties_of(uint64_t handle, CUmemAllocationProp* properties);

  // One reference less. False if the handle is none of ours. *real is what the driver has to
  // release now, or 0; *is_valid says whether there was a reference.
  bool release(uint64_t handle, bool* is_valid, uint64_t* real);
  // One reference more, to what is mapped at the address; 0 if that is none of ours.
  uint64_t retain(uint64_t address);
  // False if there is no memory to remember the mapping; the driver has to undo it.
  bool map(uint64_t address, uint64_t bytes, uint64_t handle);
  // Forgets the mappings in the range. Gives the driver's handles that have to be released now, one
  // at a time: 0 when there is none left.
  uint64_t unmap(uint64_t address, uint64_t bytes);
  // Whether memory is mapped at the address.
  bool holds(uint64_t address);
  // What is mapped in the range must remain the same from now on.
  void keep(uint64_t address, uint64_t bytes);
  void set_access(uint64_t address, uint64_t bytes, const CUmemAccessDesc* wanted, size_t count);
  void context_is_gone(Handle context);

  // For moves, with the gate shut: no hook holds the mutex or waits for it. Whether this memory is
  // to move, and a mapping to copy it by.
  const OwnMapping* way_to(const OwnPhysical& physical) NO_THREAD_SAFETY_ANALYSIS;
  uint64_t moving_bytes();
  // A context in which memory of the device was made; null if all are gone.
  Handle some_context(Device device) NO_THREAD_SAFETY_ANALYSIS;
  uint64_t counted_moving_bytes(const Accounting& accounting, Device device);
  device_memory::AddressTable<OwnPhysical>& physicals() NO_THREAD_SAFETY_ANALYSIS {
    return physicals_;
  }
  device_memory::AddressTable<OwnMapping>& mappings() NO_THREAD_SAFETY_ANALYSIS {
    return mappings_;
  }

 private:
  uint64_t drop_if_unused(OwnPhysical* physical) REQUIRES(mutex_);

  PlainMutex mutex_;  // held for no call of the driver
  device_memory::AddressTable<OwnPhysical> physicals_ GUARDED_BY(mutex_);
  device_memory::AddressTable<OwnMapping> mappings_ GUARDED_BY(mutex_);
  uint64_t last_handle_ GUARDED_BY(mutex_) = 0;
};

}  // namespace lambent::shim
