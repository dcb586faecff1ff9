// The addresses of one process that the driver knows: device memory (host pages that stand for it),
// page-locked host memory and variables of modules. Locks for itself; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "core/base/mutex.h"

namespace lambent::emulated_cuda {

enum class MemoryKind {
  kDevice,
  kHostAllocated,
  kHostRegistered,
  kModule,
  kMapped,
  kPool,
  kImported,
  kManaged,
  kOpened  // another process's, through an interprocess handle
};

// What may be done to an allocation's bytes; only mapped memory is ever less than kReadWrite.
enum class Access : uint8_t { kNone = 0, kRead = 1, kReadWrite = 3 };

struct Allocation {
  uintptr_t base;
  size_t bytes;          // what was asked for
  size_t counted_bytes;  // what it takes of the device's memory
  size_t backing_bytes;  // real memory behind it, repeated if smaller than bytes
  MemoryKind kind;
  int device;
  void* context;
  unsigned flags;  // as the program gave them; of mapped memory: the types it may be exported as
  uint64_t id;
  Access access = Access::kReadWrite;

  // Whether it is the device's memory rather than the host's.
  bool on_device() const {
    return kind != MemoryKind::kHostAllocated && kind != MemoryKind::kHostRegistered && device >= 0;
  }
};

// Where an allocation's pages lie for other processes: in a file of this one.
struct SharedPages {
  int descriptor;  // the Memory's
  size_t offset;
};

// Pages of freed device memory that are kept for the next allocation, contents included.
constexpr size_t kMostKeptPageBytes = size_t{256} << 20;

class Memory {
 public:
  // Reserves addresses for `bytes` of device memory; pages come when they are touched. With
  // `backing_bytes` below `bytes` (rounded up to pages) the same pages repeat: contents are
  // undefined, as the model launch mode allows. Empty if the host has none.
  std::optional<Allocation> allocate(size_t bytes, size_t counted_bytes, size_t backing_bytes,
                                     int device, void* context);
  std::optional<Allocation> allocate_host(size_t bytes, unsigned flags, int device, void* context,
                                          MemoryKind kind = MemoryKind::kHostAllocated);
  // Notes a range that belongs to another owner; false if it overlaps a known one.
  bool add(uintptr_t base, size_t bytes, MemoryKind kind, unsigned flags, int device,
           void* context);

  // Notes memory that was made elsewhere, mapped memory or a pool's; gives it an id. Device -1:
  // of the host.
  void enter(Allocation allocation);
  void set_access(uintptr_t base, Access access);

  // The allocation that begins at `base` and is of this kind, taken out; its addresses are invalid
  // from now on.
  std::optional<Allocation> release(uintptr_t base, MemoryKind kind);
  // Takes device memory or an import out of sight, to be released later, when its stream gets
  // there.
  bool retire(uintptr_t base);
  // Takes out everything of a context, or module variables in [base, base + bytes).
  uint64_t release_all(void* context);
  // Makes what belongs to one context belong to another.
  void hand_over(void* from, void* to);
  void forget_module(uintptr_t base);

  // Moves the pages of device memory, addresses and contents unchanged, into a file that others can
  // open. Nothing may use them meanwhile. Empty if the system has no more files.
  std::optional<SharedPages> share(const Allocation& allocation);

  // The allocation that contains all of [address, address + bytes); empty ranges need one byte. A
  // range may run over mappings that adjoin: then the first, with the least access of all.
  std::optional<Allocation> find(uintptr_t address, size_t bytes) const;

 private:
  struct Arena {
    size_t bytes;
    std::map<uintptr_t, size_t> free;  // by address, neighbours merged
    int descriptor = -1;               // once one of its blocks was shared
  };

  uintptr_t carve(size_t bytes) REQUIRES(mutex_);
  uintptr_t take_mapping(size_t bytes) REQUIRES(mutex_);
  bool keep_mapping(const Allocation& allocation) REQUIRES(mutex_);
  void give_back(const Allocation& allocation) REQUIRES(mutex_);
  bool overlaps(uintptr_t base, size_t bytes) const REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<uintptr_t, Allocation> allocations_ GUARDED_BY(mutex_);
  std::map<uintptr_t, Allocation> retired_ GUARDED_BY(mutex_);
  std::map<uintptr_t, Arena> arenas_ GUARDED_BY(mutex_);
  // Of shared allocations with a mapping of their own.
  std::map<uintptr_t, int> files_ GUARDED_BY(mutex_);
  // By bytes; an access to them faults.
  std::multimap<size_t, uintptr_t> kept_mappings_ GUARDED_BY(mutex_);
  size_t kept_bytes_ GUARDED_BY(mutex_) = 0;  // of these and of free blocks in arenas
  uint64_t next_id_ GUARDED_BY(mutex_) = 1;
};

}  // namespace lambent::emulated_cuda
