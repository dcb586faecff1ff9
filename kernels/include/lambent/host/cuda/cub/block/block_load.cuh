// cub::BlockLoad and the functions beside it: each thread reads its own values. Used by kernels on
// the host.
#pragma once

#include "../util_type.cuh"

namespace cub {

enum BlockLoadAlgorithm {
  BLOCK_LOAD_DIRECT,
  BLOCK_LOAD_STRIPED,
  BLOCK_LOAD_VECTORIZE,
  BLOCK_LOAD_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};

// Blocked: a thread's values lie side by side. Striped: a block's stride apart.
template <typename T, int Count, typename Iterator>
void LoadDirectBlocked(int thread, Iterator from, T (&items)[Count]) {
  for (int i = 0; i < Count; ++i) items[i] = from[thread * Count + i];
}
template <typename T, int Count, typename Iterator>
void LoadDirectBlocked(int thread, Iterator from, T (&items)[Count], int valid) {
  for (int i = 0; i < Count; ++i) {
    if (thread * Count + i < valid) items[i] = from[thread * Count + i];
  }
}
template <typename T, int Count, typename Iterator, typename Default>
void LoadDirectBlocked(int thread, Iterator from, T (&items)[Count], int valid, Default otherwise) {
  for (int i = 0; i < Count; ++i) {
    const int at = thread * Count + i;
    items[i] = at < valid ? static_cast<T>(from[at]) : static_cast<T>(otherwise);
  }
}
template <int Threads, typename T, int Count, typename Iterator>
void LoadDirectStriped(int thread, Iterator from, T (&items)[Count]) {
  for (int i = 0; i < Count; ++i) items[i] = from[thread + i * Threads];
}
template <int Threads, typename T, int Count, typename Iterator>
void LoadDirectStriped(int thread, Iterator from, T (&items)[Count], int valid) {
  for (int i = 0; i < Count; ++i) {
    if (thread + i * Threads < valid) items[i] = from[thread + i * Threads];
  }
}
template <int Threads, typename T, int Count, typename Iterator, typename Default>
void LoadDirectStriped(int thread, Iterator from, T (&items)[Count], int valid, Default otherwise) {
  for (int i = 0; i < Count; ++i) {
    const int at = thread + i * Threads;
    items[i] = at < valid ? static_cast<T>(from[at]) : static_cast<T>(otherwise);
  }
}
template <typename T, int Count, typename Iterator>
void LoadDirectWarpStriped(int thread, Iterator from, T (&items)[Count]) {
  for (int i = 0; i < Count; ++i) items[i] = from[thread / 32 * 32 * Count + thread % 32 + i * 32];
}

template <typename T, int X, int Count, BlockLoadAlgorithm Algorithm = BLOCK_LOAD_DIRECT,
          int Y = 1, int Z = 1, int Architecture = 0>
class BlockLoad {
 public:
  struct TempStorage {
    char none;
  };
  BlockLoad() = default;
  explicit BlockLoad(TempStorage&) {}

  template <typename Iterator, typename... Rest>
  void Load(Iterator from, T (&items)[Count], Rest... rest) {
    const int thread = lambent::host::cub_rank();
    if constexpr (Algorithm == BLOCK_LOAD_STRIPED) {
      LoadDirectStriped<X * Y * Z>(thread, from, items, rest...);
    } else {
      LoadDirectBlocked(thread, from, items, rest...);
    }
  }
};

}  // namespace cub
