// cub::BlockScan: the threads leave their values in shared memory, and the first makes sums of
// them. Used by kernels on the host.
#pragma once

#include "../util_type.cuh"

namespace cub {

enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

template <typename T, int X, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1,
          int Architecture = 0>
class BlockScan {
  static constexpr int kThreads = X * Y * Z;

  // What stands before a thread's values: nothing, for the first without a seed.
  struct Before {
    T value;
    bool any;
    T all;
  };
  struct NoPrefix {};

 public:
  struct TempStorage {
    lambent::host::CubSlots<T, kThreads> slots;
    lambent::host::CubSlots<T, 2> sums;  // of the block, and what the callback gave for it
  };

  BlockScan() : storage_(&own()) {}
  explicit BlockScan(TempStorage& storage) : storage_(&storage) {}

  template <typename Operation>
  LAMBENT_INLINE void InclusiveScan(T input, T& output, Operation operation) {
    output = after(before(input, operation), input, operation);
  }
  template <typename Operation>
  LAMBENT_INLINE void InclusiveScan(T input, T& output, Operation operation, T& aggregate) {
    const Before found = before(input, operation);
    output = after(found, input, operation);
    aggregate = found.all;
  }
  template <typename Operation, typename Prefix>
  requires(std::is_invocable_v<Prefix&, T>) LAMBENT_INLINE
      void InclusiveScan(T input, T& output, Operation operation, Prefix& prefix) {
    const Before found = before(input, operation, prefix);
    output = after(found, input, operation);
  }
  template <int Count, typename Operation, typename... Rest>
  LAMBENT_INLINE void InclusiveScan(T (&input)[Count], T (&output)[Count], Operation operation,
                                    Rest&... rest) {
    scan_items<true>(input, output, operation, rest...);
  }

  template <typename Operation>
  LAMBENT_INLINE void ExclusiveScan(T input, T& output, Operation operation) {
    output = before(input, operation).value;
  }
  template <typename Operation>
  LAMBENT_INLINE void ExclusiveScan(T input, T& output, T initial, Operation operation) {
    const Before found = before(input, operation);
    output = found.any ? operation(initial, found.value) : initial;
  }
  template <typename Operation>
  LAMBENT_INLINE void ExclusiveScan(T input, T& output, T initial, Operation operation,
                                    T& aggregate) {
    const Before found = before(input, operation);
    output = found.any ? operation(initial, found.value) : initial;
    aggregate = found.all;
  }
  template <typename Operation, typename Prefix>
  requires(std::is_invocable_v<Prefix&, T>) LAMBENT_INLINE
      void ExclusiveScan(T input, T& output, Operation operation, Prefix& prefix) {
    output = before(input, operation, prefix).value;
  }
  template <int Count, typename Operation, typename... Rest>
  requires(!std::is_convertible_v<Operation, T>) LAMBENT_INLINE
      void ExclusiveScan(T (&input)[Count], T (&output)[Count], Operation operation,
                         Rest&... rest) {
    scan_items<false>(input, output, operation, rest...);
  }
  template <int Count, typename Operation, typename... Rest>
  LAMBENT_INLINE void ExclusiveScan(T (&input)[Count], T (&output)[Count], T initial,
                                    Operation operation, Rest&... rest) {
    Before found = before(lambent::host::cub_fold_items(input, operation), operation);
    found.value = found.any ? operation(initial, found.value) : initial;
    found.any = true;
    give<false>(input, output, found, operation);
    (void(rest = found.all), ...);
  }

  LAMBENT_INLINE void InclusiveSum(T input, T& output) { InclusiveScan(input, output, kPlus); }
  template <typename Rest>
  LAMBENT_INLINE void InclusiveSum(T input, T& output, Rest& rest) {
    InclusiveScan(input, output, kPlus, rest);
  }
  template <int Count, typename... Rest>
  LAMBENT_INLINE void InclusiveSum(T (&input)[Count], T (&output)[Count], Rest&... rest) {
    scan_items<true>(input, output, kPlus, rest...);
  }
  LAMBENT_INLINE void ExclusiveSum(T input, T& output) {
    ExclusiveScan(input, output, T{}, kPlus);
  }
  LAMBENT_INLINE void ExclusiveSum(T input, T& output, T& aggregate) {
    ExclusiveScan(input, output, T{}, kPlus, aggregate);
  }
  template <typename Prefix>
  requires(std::is_invocable_v<Prefix&, T>) LAMBENT_INLINE
      void ExclusiveSum(T input, T& output, Prefix& prefix) {
    ExclusiveScan(input, output, kPlus, prefix);
  }
  template <int Count>
  LAMBENT_INLINE void ExclusiveSum(T (&input)[Count], T (&output)[Count]) {
    ExclusiveScan(input, output, T{}, kPlus);
  }
  template <int Count>
  LAMBENT_INLINE void ExclusiveSum(T (&input)[Count], T (&output)[Count], T& aggregate) {
    ExclusiveScan(input, output, T{}, kPlus, aggregate);
  }
  template <int Count, typename Prefix>
  requires(std::is_invocable_v<Prefix&, T>) LAMBENT_INLINE
      void ExclusiveSum(T (&input)[Count], T (&output)[Count], Prefix& prefix) {
    scan_items<false>(input, output, kPlus, prefix);
  }

 private:
  static constexpr lambent::host::CubPlus kPlus{};

  static TempStorage& own() {
    static __thread TempStorage storage;
    return storage;
  }

  template <typename Operation>
  static T after(const Before& found, T value, Operation operation) {
    return found.any ? T(operation(found.value, value)) : value;
  }

  // A callback is asked once, with the block's sum, for what stands before the block.
  template <typename Operation, typename Prefix = NoPrefix>
  LAMBENT_INLINE Before before(T value, Operation operation, Prefix&& prefix = {}) {
    constexpr bool kAsks = !std::is_same_v<std::remove_reference_t<Prefix>, NoPrefix>;
    const int rank = lambent::host::cub_rank();
    storage_->slots[rank] = value;
    __syncthreads();
    if (rank == 0) {
      storage_->sums[0] = lambent::host::cub_scan(storage_->slots, kThreads, operation);
      if constexpr (kAsks) storage_->sums[1] = prefix(T(storage_->sums[0]));
    }
    __syncthreads();
    Before found{storage_->slots[rank], rank != 0, storage_->sums[0]};
    if constexpr (kAsks) {
      found.value =
          found.any ? T(operation(storage_->sums[1], found.value)) : T(storage_->sums[1]);
      found.any = true;
    }
    return found;
  }

  template <bool Inclusive, int Count, typename Operation>
  static void give(T (&input)[Count], T (&output)[Count], Before found, Operation operation) {
    for (int i = 0; i < Count; ++i) {
      const T value = input[i];
      const T sum = after(found, value, operation);
      output[i] = Inclusive ? sum : found.value;
      found.value = sum;
      found.any = true;
    }
  }

  template <bool Inclusive, int Count, typename Operation>
  LAMBENT_INLINE void scan_items(T (&input)[Count], T (&output)[Count], Operation operation) {
    const Before found = before(lambent::host::cub_fold_items(input, operation), operation);
    give<Inclusive>(input, output, found, operation);
  }
  template <bool Inclusive, int Count, typename Operation, typename Last>
  LAMBENT_INLINE void scan_items(T (&input)[Count], T (&output)[Count], Operation operation,
                                 Last& last) {
    const T sum = lambent::host::cub_fold_items(input, operation);
    if constexpr (std::is_invocable_v<Last&, T>) {
      const Before found = before(sum, operation, last);
      give<Inclusive>(input, output, found, operation);
    } else {
      const Before found = before(sum, operation);
      give<Inclusive>(input, output, found, operation);
      last = found.all;
    }
  }

  TempStorage* storage_;
};

}  // namespace cub
