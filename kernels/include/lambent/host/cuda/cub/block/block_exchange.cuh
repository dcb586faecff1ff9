// cub::BlockExchange: values that change their threads, by way of shared memory. Used by kernels on
// the host.
#pragma once

#include "../util_type.cuh"

namespace cub {

template <typename T, int X, int Count, bool TimeSliced = false, int Y = 1, int Z = 1,
          int Architecture = 0>
class BlockExchange {
  static constexpr int kThreads = X * Y * Z;

 public:
  struct TempStorage {
    lambent::host::CubSlots<T, kThreads * Count> slots;
  };
  BlockExchange() : storage_(&own()) {}
  explicit BlockExchange(TempStorage& storage) : storage_(&storage) {}

  template <typename U>
  LAMBENT_INLINE void StripedToBlocked(const T (&in)[Count], U (&out)[Count]) {
    exchange(in, out, striped, blocked);
  }
  template <typename U>
  LAMBENT_INLINE void BlockedToStriped(const T (&in)[Count], U (&out)[Count]) {
    exchange(in, out, blocked, striped);
  }
  template <typename U>
  LAMBENT_INLINE void WarpStripedToBlocked(const T (&in)[Count], U (&out)[Count]) {
    exchange(in, out, warp_striped, blocked);
  }
  template <typename U>
  LAMBENT_INLINE void BlockedToWarpStriped(const T (&in)[Count], U (&out)[Count]) {
    exchange(in, out, blocked, warp_striped);
  }
  LAMBENT_INLINE void StripedToBlocked(T (&items)[Count]) { StripedToBlocked(items, items); }
  LAMBENT_INLINE void BlockedToStriped(T (&items)[Count]) { BlockedToStriped(items, items); }
  LAMBENT_INLINE void WarpStripedToBlocked(T (&items)[Count]) {
    WarpStripedToBlocked(items, items);
  }
  LAMBENT_INLINE void BlockedToWarpStriped(T (&items)[Count]) {
    BlockedToWarpStriped(items, items);
  }
  template <typename U, typename Offset>
  LAMBENT_INLINE void ScatterToBlocked(const T (&in)[Count], U (&out)[Count],
                                       Offset (&ranks)[Count]) {
    exchange(in, out, [&](int, int i) { return static_cast<int>(ranks[i]); }, blocked);
  }
  template <typename U, typename Offset>
  LAMBENT_INLINE void ScatterToStriped(const T (&in)[Count], U (&out)[Count],
                                       Offset (&ranks)[Count]) {
    exchange(in, out, [&](int, int i) { return static_cast<int>(ranks[i]); }, striped);
  }
  template <typename Offset>
  LAMBENT_INLINE void ScatterToBlocked(T (&items)[Count], Offset (&ranks)[Count]) {
    ScatterToBlocked(items, items, ranks);
  }
  template <typename Offset>
  LAMBENT_INLINE void ScatterToStriped(T (&items)[Count], Offset (&ranks)[Count]) {
    ScatterToStriped(items, items, ranks);
  }

 private:
  static int blocked(int thread, int i) { return thread * Count + i; }
  static int striped(int thread, int i) { return thread + i * kThreads; }
  static int warp_striped(int thread, int i) {
    return thread / 32 * 32 * Count + thread % 32 + i * 32;
  }
  static TempStorage& own() {
    static __thread TempStorage storage;
    return storage;
  }

  template <typename U, typename From, typename To>
  LAMBENT_INLINE void exchange(const T (&in)[Count], U (&out)[Count], From from, To to) {
    const int thread = lambent::host::cub_rank();
    for (int i = 0; i < Count; ++i) storage_->slots[from(thread, i)] = in[i];
    __syncthreads();
    for (int i = 0; i < Count; ++i) out[i] = storage_->slots[to(thread, i)];
  }

  TempStorage* storage_;
};

}  // namespace cub
