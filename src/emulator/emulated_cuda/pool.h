// A memory pool: chunks of memory with an address, cut into blocks, which are freed and found again
// in the order of streams. Used by Pools, which locks for it.
//
// A block that was freed in a stream may go to a later allocation of the same stream at once, to
// others once the free has been reached; only if there is no other memory, an allocation is put
// behind another stream's free.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "emulator/emulated_cuda/physical_memory.h"
#include "emulator/emulated_cuda/stream.h"
#include "emulator/emulated_node/machine.h"
#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_cuda {

constexpr size_t kPoolAlignmentBytes = 512;
constexpr size_t kPoolChunkBytes = size_t{32} << 20;  // what a pool asks for at a time, at least
constexpr size_t kPoolScaledBytes = size_t{8} << 20;  // from here on less may lie behind it

// What a pool takes its memory from.
struct PoolSource {
  std::function<bool(size_t bytes)> count;  // false: the device has no more
  std::function<void(size_t bytes)> uncount;
  double memory_scale = 1;  // bytes over bytes behind them
};

class Pool {
 public:
  struct Taken {
    uintptr_t address;
    size_t backing_bytes;  // real memory behind it
    CompletionPtr after;   // what the allocation has to wait for; mostly null
  };
  struct Usage {
    uint64_t reserved = 0, reserved_high = 0, used = 0, used_high = 0;
  };

  // Of memory of `device` (-1: the host). Exportable ones have a file of their own.
  Pool(PoolSource source, std::shared_ptr<Backing> backing, const CUmemPoolProps& properties,
       int device);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // For use in the stream; empty if there is no memory.
  std::optional<Taken> allocate(size_t bytes, uint64_t stream, const void* context);
  // Frees in two steps, around the enqueueing of what ends the block's use: afterwards it belongs
  // to the stream until `end` is done. Without one it is free at once.
  bool begin_free(uintptr_t address);
  void end_free(uintptr_t address, uint64_t stream, CompletionPtr end);

  // The host has waited for something: frees that are done are noted, and chunks above the release
  // threshold given back.
  void observe();
  // Gives back unused chunks as long as `keep_bytes` stay reserved.
  void trim(size_t keep_bytes);
  // The blocks that a context allocated, free from now on.
  std::vector<uintptr_t> forget(const void* context);
  bool frees_pending() const { return !pending_.empty(); }
  // Nothing allocated, nor freed and not yet reached.
  bool idle() const { return usage.reserved == 0; }

  // Where an allocated block lies in the pool's own file, for exportable pools.
  std::optional<size_t> file_offset(uintptr_t address) const;
  const std::shared_ptr<Backing>& backing() const { return backing_; }

  const CUmemPoolProps properties;
  const int device;
  Usage usage;
  uint64_t release_threshold_bytes = 0;
  bool follow_event_dependencies = true;
  bool allow_opportunistic = true;
  bool allow_internal_dependencies = true;
  std::array<uint8_t, emulated_node::kMaxPartitions + 1> access{};  // CUmemAccess_flags by location

 private:
  enum class State { kFree, kAllocated, kFreed };
  struct Block {
    size_t bytes;
    State state;
    bool scaled;
    uint64_t stream;    // that allocated or freed it
    CompletionPtr end;  // of the free; kFreed only
    const void* context;
  };
  struct Chunk {
    size_t bytes;
    std::shared_ptr<PhysicalMemory> memory;
  };
  using Blocks = std::map<uintptr_t, Block>;

  bool grow(size_t bytes);
  bool add_chunk(size_t bytes, size_t backing_bytes);
  bool release_idle_chunk(size_t keep_bytes);
  void settle(bool all);
  void make_free(Blocks::iterator it);
  Blocks::iterator best_free(size_t bytes, bool scaled);
  Blocks::iterator best_pending(size_t bytes, bool scaled, std::optional<uint64_t> stream);
  Taken take(Blocks::iterator it, size_t bytes, uint64_t stream, const void* context);
  std::map<uintptr_t, Chunk>::const_iterator chunk_of(uintptr_t address) const;

  PoolSource source_;
  std::shared_ptr<Backing> backing_;
  std::map<uintptr_t, Chunk> chunks_;
  Blocks blocks_;                                   // all of every chunk, in order
  std::set<std::pair<size_t, uintptr_t>> free_[2];  // by size; the scaled ones apart
  std::set<uintptr_t> pending_;                     // blocks in the state kFreed
};

}  // namespace lambent::emulated_cuda
