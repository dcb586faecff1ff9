// cub::BlockReduce: the threads leave their values in shared memory, and the first combines them.
// Used by kernels on the host.
#pragma once

#include "../util_type.cuh"

namespace cub {

enum BlockReduceAlgorithm {
  BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
  BLOCK_REDUCE_RAKING,
  BLOCK_REDUCE_WARP_REDUCTIONS,
  BLOCK_REDUCE_WARP_REDUCTIONS_NONDETERMINISTIC
};

// Results are the first thread's; the others get what they brought.
template <typename T, int X, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1,
          int Z = 1, int Architecture = 0>
class BlockReduce {
  static constexpr int kThreads = X * Y * Z;

 public:
  struct TempStorage {
    lambent::host::CubSlots<T, kThreads> slots;
  };

  BlockReduce() : storage_(&own()) {}
  explicit BlockReduce(TempStorage& storage) : storage_(&storage) {}

  // More valid ones than there are threads are all of them.
  template <typename Operation>
  LAMBENT_INLINE T Reduce(T input, Operation operation, int valid) {
    if (valid > kThreads) valid = kThreads;
    const int rank = lambent::host::cub_rank();
    storage_->slots[rank] = input;
    __syncthreads();
    return rank == 0 ? T(lambent::host::cub_fold(storage_->slots, valid, operation)) : input;
  }
  template <typename Operation>
  LAMBENT_INLINE T Reduce(T input, Operation operation) {
    return Reduce(input, operation, kThreads);
  }
  template <int Count, typename Operation>
  LAMBENT_INLINE T Reduce(T (&items)[Count], Operation operation) {
    return Reduce(lambent::host::cub_fold_items(items, operation), operation, kThreads);
  }
  LAMBENT_INLINE T Sum(T input) { return Reduce(input, lambent::host::CubPlus(), kThreads); }
  LAMBENT_INLINE T Sum(T input, int valid) {
    return Reduce(input, lambent::host::CubPlus(), valid);
  }
  template <int Count>
  LAMBENT_INLINE T Sum(T (&items)[Count]) {
    return Reduce(items, lambent::host::CubPlus());
  }

 private:
  static TempStorage& own() {
    static __thread TempStorage storage;
    return storage;
  }
  TempStorage* storage_;
};

}  // namespace cub
