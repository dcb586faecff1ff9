// cub::BlockStore and the functions beside it: each thread writes its own values. Used by kernels
// on the host.
#pragma once

#include "../util_type.cuh"

namespace cub {

enum BlockStoreAlgorithm {
  BLOCK_STORE_DIRECT,
  BLOCK_STORE_STRIPED,
  BLOCK_STORE_VECTORIZE,
  BLOCK_STORE_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};

template <typename T, int Count, typename Iterator>
void StoreDirectBlocked(int thread, Iterator to, T (&items)[Count]) {
  for (int i = 0; i < Count; ++i) to[thread * Count + i] = items[i];
}
template <typename T, int Count, typename Iterator>
void StoreDirectBlocked(int thread, Iterator to, T (&items)[Count], int valid) {
  for (int i = 0; i < Count; ++i) {
    if (thread * Count + i < valid) to[thread * Count + i] = items[i];
  }
}
template <int Threads, typename T, int Count, typename Iterator>
void StoreDirectStriped(int thread, Iterator to, T (&items)[Count]) {
  for (int i = 0; i < Count; ++i) to[thread + i * Threads] = items[i];
}
template <int Threads, typename T, int Count, typename Iterator>
void StoreDirectStriped(int thread, Iterator to, T (&items)[Count], int valid) {
  for (int i = 0; i < Count; ++i) {
    if (thread + i * Threads < valid) to[thread + i * Threads] = items[i];
  }
}
template <typename T, int Count, typename Iterator>
void StoreDirectWarpStriped(int thread, Iterator to, T (&items)[Count]) {
  for (int i = 0; i < Count; ++i) to[thread / 32 * 32 * Count + thread % 32 + i * 32] = items[i];
}

template <typename T, int X, int Count, BlockStoreAlgorithm Algorithm = BLOCK_STORE_DIRECT,
          int Y = 1, int Z = 1, int Architecture = 0>
class BlockStore {
 public:
  struct TempStorage {
    char none;
  };
  BlockStore() = default;
  explicit BlockStore(TempStorage&) {}

  template <typename Iterator, typename... Rest>
  void Store(Iterator to, T (&items)[Count], Rest... valid) {
    const int thread = lambent::host::cub_rank();
    if constexpr (Algorithm == BLOCK_STORE_STRIPED) {
      StoreDirectStriped<X * Y * Z>(thread, to, items, valid...);
    } else {
      StoreDirectBlocked(thread, to, items, valid...);
    }
  }
};

}  // namespace cub
