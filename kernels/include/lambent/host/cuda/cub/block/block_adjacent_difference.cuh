// cub::BlockAdjacentDifference: what an operation makes of neighbouring values. Used by kernels on
// the host.
#pragma once

#include "../util_type.cuh"

namespace cub {

template <typename T, int X, int Y = 1, int Z = 1, int Architecture = 0>
class BlockAdjacentDifference {
  static constexpr int kThreads = X * Y * Z;

 public:
  struct TempStorage {
    lambent::host::CubSlots<T, kThreads> edges;  // the last values of threads, or the first
  };
  BlockAdjacentDifference() : storage_(&own()) {}
  explicit BlockAdjacentDifference(TempStorage& storage) : storage_(&storage) {}

  template <int Count, typename Result, typename Operation>
  LAMBENT_INLINE void SubtractLeft(T (&in)[Count], Result (&out)[Count], Operation operation) {
    const int thread = lambent::host::cub_rank();
    storage_->edges[thread] = in[Count - 1];
    __syncthreads();
    for (int i = Count - 1; i > 0; --i) out[i] = operation(in[i], in[i - 1]);
    out[0] = thread == 0 ? Result(in[0]) : Result(operation(in[0], storage_->edges[thread - 1]));
  }
  template <int Count, typename Result, typename Operation>
  LAMBENT_INLINE void SubtractLeft(T (&in)[Count], Result (&out)[Count], Operation operation,
                                   T before_block) {
    const int thread = lambent::host::cub_rank();
    storage_->edges[thread] = in[Count - 1];
    __syncthreads();
    for (int i = Count - 1; i > 0; --i) out[i] = operation(in[i], in[i - 1]);
    out[0] = operation(in[0], thread == 0 ? before_block : T(storage_->edges[thread - 1]));
  }
  template <int Count, typename Result, typename Operation>
  LAMBENT_INLINE void SubtractRight(T (&in)[Count], Result (&out)[Count], Operation operation) {
    const int thread = lambent::host::cub_rank();
    storage_->edges[thread] = in[0];
    __syncthreads();
    for (int i = 0; i + 1 < Count; ++i) out[i] = operation(in[i], in[i + 1]);
    out[Count - 1] = thread == kThreads - 1
                         ? Result(in[Count - 1])
                         : Result(operation(in[Count - 1], storage_->edges[thread + 1]));
  }

 private:
  static TempStorage& own() {
    static __thread TempStorage storage;
    return storage;
  }
  TempStorage* storage_;
};

}  // namespace cub
