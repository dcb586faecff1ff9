// Tiles of more than a warp: 64 to 1,024 threads of a block, side by side. Included by
// cooperative_groups.h alone.
#pragma once

#include "lambent/host/phases.h"

namespace lambent::host {

// Of the block that this host thread runs: a barrier for each tile of each size, and a word for
// each thread.
struct WideTiles {
  static constexpr unsigned place_of(unsigned size, unsigned tile) {
    return kMostThreads / size - 1 + tile;
  }

  PhaseBarrier barriers[kMostThreads / kWarp - 1];
  uint64_t words[kMostThreads] = {};
};
static constinit thread_local WideTiles wide_tiles;

}  // namespace lambent::host

namespace cooperative_groups {

// What a GPU needs for such tiles in shared memory; here they have it already.
template <unsigned MostThreads = 1024>
struct block_tile_memory {
  char unused = 0;
};
template <unsigned MostThreads>
LAMBENT_INLINE thread_block this_thread_block(block_tile_memory<MostThreads>&) {
  // An earlier block may have ended in the middle of a tile.
  if (host::linear(threadIdx) == 0) host::wide_tiles = {};
  __syncthreads();
  return this_thread_block();
}

template <unsigned Size, typename Parent>
requires(Size > host::kWarp) class thread_block_tile<Size, Parent> {
  static_assert(Size <= host::kMostThreads && (Size & (Size - 1)) == 0,
                "tiles on the host have 1, 2, 4, ... or 1024 threads");

 public:
  explicit thread_block_tile(unsigned /*parent_lane*/) {}
  template <typename Other>
  thread_block_tile(const thread_block_tile<Size, Other>&) {}

  static constexpr unsigned size() { return Size; }
  static constexpr unsigned num_threads() { return Size; }
  unsigned thread_rank() const { return host::linear(threadIdx) % Size; }
  unsigned meta_group_rank() const { return host::linear(threadIdx) / Size % meta_group_size(); }
  unsigned meta_group_size() const {
    if constexpr (requires { Parent::size(); } && !std::is_same_v<Parent, thread_block>) {
      return Parent::size() / Size;
    } else {
      return this_thread_block().size() / Size;
    }
  }
  bool is_valid() const { return true; }

  LAMBENT_INLINE void sync() const {
    const unsigned tile = host::linear(threadIdx) / Size;
    host::PhaseBarrier& barrier = host::wide_tiles.barriers[host::WideTiles::place_of(Size, tile)];
    barrier.expected = Size;
    barrier.wait(barrier.arrive());
  }
  template <typename T>
  LAMBENT_INLINE host::Plain<T> shfl(T value, int rank) const {
    put(value);
    sync();
    const auto result = get<host::Plain<T>>(static_cast<unsigned>(rank) % Size);
    sync();
    return result;
  }
  LAMBENT_INLINE int any(int predicate) const {
    return reduced(predicate != 0, [](int a, int b) { return a | b; });
  }
  LAMBENT_INLINE int all(int predicate) const {
    return reduced(predicate != 0, [](int a, int b) { return a & b; });
  }

  // In the order of their ranks, by the first thread for all.
  template <typename T, typename Operation>
  LAMBENT_INLINE T reduced(T value, Operation operation) const {
    put(value);
    sync();
    if (thread_rank() == 0) {
      for (unsigned rank = 1; rank < Size; ++rank) value = operation(value, get<T>(rank));
      put(value);
    }
    sync();
    value = get<T>(0);
    sync();
    return value;
  }

 private:
  static unsigned first() { return host::linear(threadIdx) / Size * Size; }
  template <typename T>
  void put(T value) const {
    host::wide_tiles.words[host::linear(threadIdx)] = host::to_word(value);
  }
  template <typename T>
  T get(unsigned rank) const {
    T value;
    __builtin_memcpy(&value, &host::wide_tiles.words[first() + rank], sizeof value);
    return value;
  }
};

}  // namespace cooperative_groups
