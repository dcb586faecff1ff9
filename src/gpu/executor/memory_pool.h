// MemoryPool: the device memory of an executor, mapped at reserved addresses: kept when given back,
// so that warm requests ask the driver for nothing, until it is trimmed. A resource of the loop
// thread, whose current context is the device's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/result.h"
#include "core/base/units.h"
#include "core/protocol/pool_units.h"
#include "gpu/cuda/virtual_memory.h"
#include "gpu/device_memory/address_space.h"
#include "gpu/device_memory/piece_map.h"

namespace lambent::executor {

using protocol::kLeastLarge;

// Blocks of 1 MiB (kLeastLarge) and more have memory of their own, in whole units of the driver's
// granularity (2 MiB); smaller ones lie together in such units, in steps of 512 bytes.
class MemoryPool {
 public:
  // Addresses for twice the device's memory, so that finding some is never what fails first.
  static Result<std::unique_ptr<MemoryPool>> create(const cuda::Driver& driver, int ordinal);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  struct Block {
    CUdeviceptr address = 0;
    Bytes size;        // what it counts with; at least what was asked for
    bool own = false;  // `user` was the last to have it, so that nothing of others can lie in it
  };
  // RESOURCE_EXHAUSTED if the limit or the device has not as much left; before it says so it waits
  // for what is leaving. What lies in the block is undefined, and never another process's.
  Result<Block> take(Bytes size, uint64_t user);
  // Nothing may still be running that uses it.
  void give_back(CUdeviceptr address);

  // Memory goes to the device in three steps, for unmapping may wait for what runs there: it is
  // taken out of the pool, unmapped by any thread, once, and forgotten.
  using Leaving = std::vector<std::pair<CUdeviceptr, Bytes>>;
  // Takes out what lies free, the largest blocks first, until there is so much.
  Leaving begin_unmapping(Bytes most);
  // The same with what has lain free for more than `looks` earlier calls of this function.
  Leaving begin_unmapping_idle(Bytes most, uint64_t looks);
  // As give_back(); takes out the memory that nothing else lies in then, with what is leaving.
  void give_to_device(CUdeviceptr address, Leaving* leaving);
  void unmap(const Leaving& leaving) const;
  void forget(const Leaving& leaving);
  // What lies free in whole units.
  Bytes free() const;
  // Whether there is memory that begin_unmapping_idle() could take out, now or later.
  bool has_free() const;

  // The memory of a block for another process, which keeps it as long as it likes. NOT_FOUND if the
  // block shares its memory with others.
  struct Shareable {
    Bytes size;
    OwnedFd memory;
  };
  Result<Shareable> share(CUdeviceptr address) const;

  // How much take() may hand out together. Free memory above it goes back to the device at once.
  void set_limit(Bytes limit);
  Bytes limit() const { return limit_; }

  // What a block of this size counts with.
  Bytes rounded(Bytes size) const;
  Bytes used() const { return used_; }      // handed out, rounded
  Bytes mapped() const { return mapped_; }  // what the device has given, in all
  // How often the driver was asked for memory or given some back; stands still on the warm path.
  uint64_t driver_calls() const { return driver_calls_; }

 private:
  MemoryPool(const cuda::Driver& driver, int ordinal, Bytes unit,
             cuda::ReservedAddresses addresses);

  struct Large {
    Bytes size;
    uint64_t user = 0;
  };
  struct Shared {  // a unit that small blocks lie in
    device_memory::PieceMap pieces;
    uint64_t empty_since = 0;  // a look, if it is empty
  };
  struct Free {
    CUdeviceptr address = 0;
    uint64_t user = 0;   // who had it last
    uint64_t since = 0;  // a look
  };
  using FreeBlocks = std::multimap<Bytes, Free>;  // by size

  bool is_small(Bytes size) const;
  Result<Block> take_small(Bytes size);
  Result<Block> take_large(Bytes size, uint64_t user);
  Result<CUdeviceptr> map_new(Bytes size);
  void unmap(CUdeviceptr address, Bytes size);
  // What became free at such a look.
  Leaving begin_unmapping_if(Bytes most, const std::function<bool(uint64_t)>& since);
  void leave(CUdeviceptr address, Bytes size, Leaving* leaving);
  void unmap_free(FreeBlocks::iterator block);
  void await_leaving() const;
  // Unmaps free blocks, the largest first, until `more` could be mapped within the limit, or none
  // is left.
  void make_room(Bytes more);

  const cuda::Driver& driver_;
  const int ordinal_;
  const Bytes unit_;
  const cuda::Sharing sharing_;
  cuda::ReservedAddresses addresses_;
  device_memory::AddressSpace space_;

  Bytes limit_, used_, mapped_;
  uint64_t looks_ = 0;  // calls of begin_unmapping_idle()
  uint64_t driver_calls_ = 0;
  std::unordered_map<CUdeviceptr, Large> large_;  // handed out
  FreeBlocks free_large_;
  std::unordered_map<CUdeviceptr, Bytes> leaving_;
  mutable Mutex leaving_mutex_;
  mutable Condition unmapped_;
  mutable size_t to_unmap_ GUARDED_BY(leaving_mutex_) = 0;  // blocks
  std::map<CUdeviceptr, std::unique_ptr<Shared>> shared_;
  std::unordered_map<CUdeviceptr, Bytes> small_;  // handed out, rounded sizes
};

}  // namespace lambent::executor
