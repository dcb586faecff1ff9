// cub::WarpReduce: the lanes leave their values in shared memory, and the first combines them. Used
// by kernels on the host.
#pragma once

#include "../util_type.cuh"

namespace cub {

// Results are the first lane's; the others get what they brought.
template <typename T, int Lanes = 32, int Architecture = 0>
class WarpReduce {
 public:
  struct TempStorage {
    lambent::host::CubSlots<T, Lanes> slots;
  };
  explicit WarpReduce(TempStorage& storage) : storage_(&storage) {}

  // More valid ones than there are lanes are all of them.
  template <typename Operation>
  LAMBENT_INLINE T Reduce(T input, Operation operation, int valid) {
    if (valid > Lanes) valid = Lanes;
    const int lane = lambent::host::cub_part_lane(Lanes);
    storage_->slots[lane] = input;
    __syncwarp(lambent::host::cub_part_mask(Lanes));
    return lane == 0 ? T(lambent::host::cub_fold(storage_->slots, valid, operation)) : input;
  }
  template <typename Operation>
  LAMBENT_INLINE T Reduce(T input, Operation operation) {
    return Reduce(input, operation, Lanes);
  }
  LAMBENT_INLINE T Sum(T input) { return Reduce(input, lambent::host::CubPlus(), Lanes); }
  LAMBENT_INLINE T Sum(T input, int valid) {
    return Reduce(input, lambent::host::CubPlus(), valid);
  }

 private:
  TempStorage* storage_;
};

}  // namespace cub
