// CUB on the host: what blocks and warps do together. The algorithms of the whole device are
// kernels of CUB's own, and not there. Used by kernels.
#pragma once

#include "block/block_adjacent_difference.cuh"
#include "block/block_exchange.cuh"
#include "block/block_load.cuh"
#include "block/block_radix_sort.cuh"
#include "block/block_reduce.cuh"
#include "block/block_scan.cuh"
#include "block/block_store.cuh"
#include "util_type.cuh"
#include "warp/warp_exchange.cuh"
#include "warp/warp_reduce.cuh"
#include "warp/warp_scan.cuh"

#define LAMBENT_CUB_REFUSED(function)                                                         \
  template <typename... Arguments>                                                            \
  static int function(Arguments...) {                                                         \
    static_assert(lambent::host::never<Arguments...>,                                         \
                  "cub's algorithms of the whole device (" #function                          \
                  ") are not supported: their kernels consist of a GPU's instructions");      \
    return 0;                                                                                 \
  }
namespace cub {

struct DeviceReduce {
  LAMBENT_CUB_REFUSED(Reduce)
  LAMBENT_CUB_REFUSED(Sum)
  LAMBENT_CUB_REFUSED(Min)
  LAMBENT_CUB_REFUSED(Max)
  LAMBENT_CUB_REFUSED(ArgMin)
  LAMBENT_CUB_REFUSED(ArgMax)
  LAMBENT_CUB_REFUSED(ReduceByKey)
  LAMBENT_CUB_REFUSED(TransformReduce)
};
struct DeviceSegmentedReduce : DeviceReduce {};
struct DeviceScan {
  LAMBENT_CUB_REFUSED(ExclusiveSum)
  LAMBENT_CUB_REFUSED(InclusiveSum)
  LAMBENT_CUB_REFUSED(ExclusiveScan)
  LAMBENT_CUB_REFUSED(InclusiveScan)
  LAMBENT_CUB_REFUSED(ExclusiveSumByKey)
  LAMBENT_CUB_REFUSED(InclusiveSumByKey)
};
struct DeviceRadixSort {
  LAMBENT_CUB_REFUSED(SortKeys)
  LAMBENT_CUB_REFUSED(SortKeysDescending)
  LAMBENT_CUB_REFUSED(SortPairs)
  LAMBENT_CUB_REFUSED(SortPairsDescending)
};
struct DeviceSegmentedRadixSort : DeviceRadixSort {};
struct DeviceSegmentedSort : DeviceRadixSort {};
struct DeviceMergeSort : DeviceRadixSort {};
struct DeviceSelect {
  LAMBENT_CUB_REFUSED(Flagged)
  LAMBENT_CUB_REFUSED(If)
  LAMBENT_CUB_REFUSED(Unique)
  LAMBENT_CUB_REFUSED(UniqueByKey)
};
struct DevicePartition : DeviceSelect {};
struct DeviceRunLengthEncode {
  LAMBENT_CUB_REFUSED(Encode)
  LAMBENT_CUB_REFUSED(NonTrivialRuns)
};
struct DeviceHistogram {
  LAMBENT_CUB_REFUSED(HistogramEven)
  LAMBENT_CUB_REFUSED(HistogramRange)
};
struct DeviceFor {
  LAMBENT_CUB_REFUSED(Bulk)
  LAMBENT_CUB_REFUSED(ForEach)
  LAMBENT_CUB_REFUSED(ForEachN)
};

}  // namespace cub
#undef LAMBENT_CUB_REFUSED
