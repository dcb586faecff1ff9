// Cooperative groups for kernels on the host: the block, tiles of a warp, coalesced lanes, the
// grid. A group is a value that names its threads; used by kernels.
#pragma once

#include "lambent/host/warps.h"

namespace cooperative_groups {

namespace host = lambent::host;

// A block, or some lanes of a warp.
class thread_group {
 public:
  LAMBENT_INLINE void sync() const {
    if (mask_ == 0) {
      __syncthreads();
    } else {
      __syncwarp(mask_);
    }
  }
  unsigned size() const {
    return mask_ != 0 ? static_cast<unsigned>(__builtin_popcount(mask_))
                      : unsigned{blockDim.x} * blockDim.y * blockDim.z;
  }
  unsigned num_threads() const { return size(); }
  unsigned thread_rank() const {
    const unsigned number = host::linear(threadIdx);
    if (mask_ == 0) return number;
    const unsigned below = (1u << number % host::kWarp) - 1;
    return static_cast<unsigned>(__builtin_popcount(mask_ & below));
  }
  bool is_valid() const { return true; }
  // Of the warp, one bit for each thread of the group; 0 for the block.
  unsigned lane_mask() const { return mask_; }

 protected:
  explicit thread_group(unsigned mask) : mask_(mask) {}

  unsigned mask_;  // 0: the block

  friend thread_group tiled_partition(const thread_group& parent, unsigned size);
};

class thread_block : public thread_group {
 public:
  LAMBENT_INLINE static void sync() { __syncthreads(); }
  static uint3 group_index() { return blockIdx; }
  static uint3 thread_index() { return threadIdx; }
  static dim3 group_dim() { return blockDim; }
  static dim3 dim_threads() { return blockDim; }

 private:
  thread_block() : thread_group(0u) {}
  friend thread_block this_thread_block();
};
inline thread_block this_thread_block() { return {}; }

// What tiles and coalesced lanes can do: everything by rank within the group.
template <typename Group>
class lanes : public thread_group {
 public:
  template <typename T>
  LAMBENT_INLINE host::Plain<T> shfl(T value, int rank) const {
    return exchange<host::Plain<T>>(value, self().lane_of(static_cast<unsigned>(rank) % size()));
  }
  template <typename T>
  LAMBENT_INLINE host::Plain<T> shfl_up(T value, unsigned delta) const {
    const unsigned rank = thread_rank();
    return exchange<host::Plain<T>>(value, self().lane_of(rank >= delta ? rank - delta : rank));
  }
  template <typename T>
  LAMBENT_INLINE host::Plain<T> shfl_down(T value, unsigned delta) const {
    const unsigned rank = thread_rank();
    return exchange<host::Plain<T>>(value,
                                    self().lane_of(delta < size() - rank ? rank + delta : rank));
  }
  LAMBENT_INLINE int any(int predicate) const { return __any_sync(mask_, predicate); }
  LAMBENT_INLINE int all(int predicate) const { return __all_sync(mask_, predicate); }
  LAMBENT_INLINE unsigned ballot(int predicate) const {
    return self().ranks_of(__ballot_sync(mask_, predicate));
  }
  template <typename T>
  LAMBENT_INLINE unsigned match_any(T value) const {
    return self().ranks_of(__match_any_sync(mask_, value));
  }
  template <typename T>
  LAMBENT_INLINE unsigned match_all(T value, int& same) const {
    return self().ranks_of(__match_all_sync(mask_, value, &same));
  }

 protected:
  explicit lanes(unsigned mask) : thread_group(mask) {}

  // Values of any size, eight bytes at a time.
  template <typename T>
  LAMBENT_INLINE T exchange(T value, unsigned lane) const {
    static_assert(std::is_trivially_copyable_v<T>, "groups exchange trivially copyable values");
    if constexpr (sizeof(T) <= 8) {
      return host::shuffle<T>(mask_, value, lane);
    } else {
      uint64_t words[(sizeof(T) + 7) / 8] = {};
      __builtin_memcpy(words, &value, sizeof value);
      for (auto& word : words) word = host::shuffle(mask_, word, lane);
      __builtin_memcpy(&value, words, sizeof value);
      return value;
    }
  }

 private:
  const Group& self() const { return static_cast<const Group&>(*this); }
};

// Size lanes of a warp, side by side.
template <unsigned Size, typename Parent = void>
class thread_block_tile : public lanes<thread_block_tile<Size, Parent>> {
  static_assert(Size > 0 && Size <= 32 && (Size & (Size - 1)) == 0,
                "tiles on the host have 1, 2, 4, 8, 16 or 32 threads");
  using Lanes = lanes<thread_block_tile<Size, Parent>>;

 public:
  explicit thread_block_tile(unsigned parent_lane)
      : Lanes((Size == 32 ? ~0u : (1u << Size % 32) - 1) << (parent_lane & ~(Size - 1))) {}

  template <typename Other>
  thread_block_tile(const thread_block_tile<Size, Other>& other) : thread_block_tile(host::lane()) {
    if constexpr (std::is_void_v<Parent>) {
      place_ = {other.meta_group_rank(), other.meta_group_size()};
    }
  }

  static constexpr unsigned size() { return Size; }
  static constexpr unsigned num_threads() { return Size; }
  unsigned thread_rank() const { return host::lane() % Size; }
  unsigned meta_group_rank() const {
    if constexpr (std::is_void_v<Parent>) return place_.rank;
    return std::is_same_v<Parent, thread_block> ? host::linear(threadIdx) / Size
                                                : host::lane() % parent_size() / Size;
  }
  unsigned meta_group_size() const {
    if constexpr (std::is_void_v<Parent>) return place_.groups;
    return (std::is_same_v<Parent, thread_block> ? this_thread_block().size() + Size - 1
                                                 : parent_size()) /
           Size;
  }
  template <typename T>
  LAMBENT_INLINE host::Plain<T> shfl_xor(T value, unsigned lanes) const {
    return this->template exchange<host::Plain<T>>(value, host::lane() ^ (lanes % Size));
  }

  unsigned lane_of(unsigned rank) const { return (host::lane() & ~(Size - 1)) | rank % Size; }
  unsigned ranks_of(unsigned mask) const {
    return (mask & this->mask_) >> (host::lane() & ~(Size - 1));
  }

 private:
  static constexpr unsigned parent_size() {
    if constexpr (requires { Parent::size(); } && !std::is_same_v<Parent, thread_block>) {
      return Parent::size();
    } else {
      return 32;
    }
  }

  // Where it lies in its parent, for a tile whose type does not say what that is.
  struct Place {
    unsigned rank = 0, groups = 1;
  };
  struct Nothing {};
  [[no_unique_address]] std::conditional_t<std::is_void_v<Parent>, Place, Nothing> place_;
};

template <unsigned Size, typename Parent>
inline auto tiled_partition(const Parent&) {
  return thread_block_tile<Size, Parent>(host::lane());
}

// The lanes of a mask whose ranks among them are in the same row of `size` as this one's.
inline unsigned tile_of_ranks(unsigned mask, unsigned size) {
  const unsigned first =
      static_cast<unsigned>(__builtin_popcount(mask & ((1u << host::lane()) - 1))) / size * size;
  unsigned tile = 0, rank = 0;
  for (unsigned left = mask; left != 0; left &= left - 1, ++rank) {
    if (rank >= first && rank - first < size) tile |= left & -left;
  }
  return tile;
}

inline void check_tile(unsigned size) {
  if (size == 0 || size > 32 || (size & (size - 1)) != 0) {
    host::report_misuse("tiled_partition: tiles have 1, 2, 4, 8, 16 or 32 threads");
  }
}

// The last tile of a block has as many threads as are left.
inline thread_group tiled_partition(const thread_group& parent, unsigned size) {
  check_tile(size);
  if (parent.mask_ != 0) return thread_group(tile_of_ranks(parent.mask_, size));
  const unsigned first = parent.thread_rank() & ~(size - 1), left = parent.size() - first;
  const unsigned count = left < size ? left : size;
  return thread_group((count == 32 ? ~0u : (1u << count) - 1) << (host::lane() & ~(size - 1)));
}

// Lanes that came the same way.
class coalesced_group : public lanes<coalesced_group> {
 public:
  explicit coalesced_group(unsigned mask, unsigned place = 0, unsigned groups = 1)
      : lanes(mask), place_(place), groups_(groups) {}

  unsigned meta_group_rank() const { return place_; }
  unsigned meta_group_size() const { return groups_; }

  unsigned lane_of(unsigned rank) const {
    unsigned left = mask_;
    for (; rank > 0; --rank) left &= left - 1;
    return static_cast<unsigned>(__builtin_ctz(left));
  }
  unsigned ranks_of(unsigned mask) const {
    unsigned ranks = 0, rank = 0;
    for (unsigned left = mask_; left != 0; left &= left - 1, ++rank) {
      if ((mask & left & -left) != 0) ranks |= 1u << rank;
    }
    return ranks;
  }

 private:
  unsigned place_, groups_;  // in what it is a tile of
};

inline coalesced_group tiled_partition(const coalesced_group& parent, unsigned size) {
  check_tile(size);
  if (parent.size() <= size) return parent;
  return coalesced_group(tile_of_ranks(parent.lane_mask(), size), parent.thread_rank() / size,
                         (parent.size() + size - 1) / size);
}

LAMBENT_INLINE coalesced_group coalesced_threads(unsigned line = __builtin_LINE()) {
  return coalesced_group(__activemask(line));
}

// The lanes of a tile or coalesced group that bring the same label, or the same truth.
template <typename Group, typename Label>
LAMBENT_INLINE coalesced_group labeled_partition(const Group& group, Label label) {
  return coalesced_group(__match_any_sync(group.lane_mask(), label));
}
template <typename Group>
LAMBENT_INLINE coalesced_group binary_partition(const Group& group, bool predicate) {
  const unsigned mask = group.lane_mask(), yes = __ballot_sync(mask, predicate);
  return coalesced_group(predicate ? yes : mask & ~yes);
}

// All blocks of a cooperative launch.
class grid_group {
 public:
  LAMBENT_INLINE void sync() const { host::synchronize_grid(); }
  bool is_valid() const { return host::block.launch->wait_for_grid != nullptr; }
  unsigned long long num_blocks() const {
    return static_cast<unsigned long long>(gridDim.x) * gridDim.y * gridDim.z;
  }
  unsigned long long block_rank() const {
    return (static_cast<unsigned long long>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x +
           blockIdx.x;
  }
  unsigned long long size() const { return num_blocks() * this_thread_block().size(); }
  unsigned long long num_threads() const { return size(); }
  unsigned long long thread_rank() const {
    return block_rank() * this_thread_block().size() + this_thread_block().thread_rank();
  }
  dim3 group_dim() const { return gridDim; }
  dim3 dim_blocks() const { return gridDim; }
  uint3 block_index() const { return blockIdx; }
};
inline grid_group this_grid() { return {}; }

template <typename Group>
LAMBENT_INLINE void sync(const Group& group) {
  group.sync();
}
template <typename Group>
inline unsigned thread_rank(const Group& group) {
  return group.thread_rank();
}
template <typename Group>
inline unsigned group_size(const Group& group) {
  return group.size();
}

}  // namespace cooperative_groups

#include "cooperative_groups/wide_tile.h"
