// cub::WarpScan: the lanes leave their values in shared memory, and the first makes sums of them.
// Used by kernels on the host.
#pragma once

#include "../util_type.cuh"

namespace cub {

template <typename T, int Lanes = 32, int Architecture = 0>
class WarpScan {
 public:
  struct TempStorage {
    lambent::host::CubSlots<T, Lanes> slots;
    lambent::host::CubSlots<T, 1> all;
  };
  explicit WarpScan(TempStorage& storage) : storage_(&storage) {}

  template <typename Operation>
  LAMBENT_INLINE void InclusiveScan(T input, T& output, Operation operation) {
    scan(input, operation);
    output = after(input, operation);
  }
  template <typename Operation>
  LAMBENT_INLINE void InclusiveScan(T input, T& output, Operation operation, T& aggregate) {
    scan(input, operation);
    output = after(input, operation);
    aggregate = storage_->all[0];
  }
  template <typename Operation>
  LAMBENT_INLINE void ExclusiveScan(T input, T& output, Operation operation) {
    scan(input, operation);
    output = storage_->slots[lane()];
  }
  template <typename Operation>
  LAMBENT_INLINE void ExclusiveScan(T input, T& output, T initial, Operation operation) {
    scan(input, operation);
    output = lane() == 0 ? initial : T(operation(initial, storage_->slots[lane()]));
  }
  template <typename Operation>
  LAMBENT_INLINE void ExclusiveScan(T input, T& output, T initial, Operation operation,
                                    T& aggregate) {
    ExclusiveScan(input, output, initial, operation);
    aggregate = storage_->all[0];
  }
  LAMBENT_INLINE void InclusiveSum(T input, T& output) {
    InclusiveScan(input, output, lambent::host::CubPlus());
  }
  LAMBENT_INLINE void InclusiveSum(T input, T& output, T& aggregate) {
    InclusiveScan(input, output, lambent::host::CubPlus(), aggregate);
  }
  LAMBENT_INLINE void ExclusiveSum(T input, T& output) {
    ExclusiveScan(input, output, T{}, lambent::host::CubPlus());
  }
  LAMBENT_INLINE void ExclusiveSum(T input, T& output, T& aggregate) {
    ExclusiveScan(input, output, T{}, lambent::host::CubPlus(), aggregate);
  }
  LAMBENT_INLINE T Broadcast(T input, unsigned from) {
    storage_->slots[lane()] = input;
    __syncwarp(lambent::host::cub_part_mask(Lanes));
    return storage_->slots[static_cast<int>(from)];
  }

 private:
  static int lane() { return lambent::host::cub_part_lane(Lanes); }

  template <typename Operation>
  LAMBENT_INLINE void scan(T input, Operation operation) {
    storage_->slots[lane()] = input;
    __syncwarp(lambent::host::cub_part_mask(Lanes));
    if (lane() == 0) {
      storage_->all[0] = lambent::host::cub_scan(storage_->slots, Lanes, operation);
    }
    __syncwarp(lambent::host::cub_part_mask(Lanes));
  }
  template <typename Operation>
  T after(T input, Operation operation) {
    return lane() == 0 ? input : T(operation(storage_->slots[lane()], input));
  }

  TempStorage* storage_;
};

}  // namespace cub
