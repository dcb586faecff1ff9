// cub::WarpExchange: values that change their lanes, by way of shared memory. Used by kernels on
// the host.
#pragma once

#include "../util_type.cuh"

namespace cub {

enum WarpExchangeAlgorithm { WARP_EXCHANGE_SMEM, WARP_EXCHANGE_SHUFFLE };

template <typename T, int Count, int Lanes = 32, int ArchitectureOrAlgorithm = 0,
          WarpExchangeAlgorithm = WARP_EXCHANGE_SMEM>
class WarpExchange {
 public:
  struct TempStorage {
    lambent::host::CubSlots<T, Lanes * Count> slots;
  };
  explicit WarpExchange(TempStorage& storage) : storage_(&storage) {}

  template <typename U>
  LAMBENT_INLINE void BlockedToStriped(const T (&in)[Count], U (&out)[Count]) {
    exchange(in, out, blocked, striped);
  }
  template <typename U>
  LAMBENT_INLINE void StripedToBlocked(const T (&in)[Count], U (&out)[Count]) {
    exchange(in, out, striped, blocked);
  }
  template <typename U, typename Offset>
  LAMBENT_INLINE void ScatterToStriped(const T (&in)[Count], U (&out)[Count],
                                       Offset (&ranks)[Count]) {
    exchange(in, out, [&](int, int i) { return static_cast<int>(ranks[i]); }, striped);
  }
  template <typename Offset>
  LAMBENT_INLINE void ScatterToStriped(T (&items)[Count], Offset (&ranks)[Count]) {
    ScatterToStriped(items, items, ranks);
  }

 private:
  static int blocked(int lane, int i) { return lane * Count + i; }
  static int striped(int lane, int i) { return lane + i * Lanes; }

  template <typename U, typename From, typename To>
  LAMBENT_INLINE void exchange(const T (&in)[Count], U (&out)[Count], From from, To to) {
    const int lane = lambent::host::cub_part_lane(Lanes);
    for (int i = 0; i < Count; ++i) storage_->slots[from(lane, i)] = in[i];
    __syncwarp(lambent::host::cub_part_mask(Lanes));
    for (int i = 0; i < Count; ++i) out[i] = storage_->slots[to(lane, i)];
    __syncwarp(lambent::host::cub_part_mask(Lanes));
  }

  TempStorage* storage_;
};

}  // namespace cub
