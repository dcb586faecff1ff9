// cub::BlockRadixSort: the first thread sorts what the others left in shared memory. Used by
// kernels on the host.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "../util_type.cuh"

namespace cub {

template <typename Key, int X, int Count, typename Value = NullType, int RadixBits = 4,
          bool MemoizeOuterScan = true, int Scan = 0, int SharedConfig = 0, int Y = 1, int Z = 1,
          int Architecture = 0>
class BlockRadixSort {
  static constexpr int kThreads = X * Y * Z;
  static constexpr int kAll = kThreads * Count;
  static constexpr int kBits = 8 * static_cast<int>(sizeof(Key));
  static constexpr bool kHasValues = !std::is_same_v<Value, NullType>;
  struct Entry {
    uint64_t order;
    Key key;
    Value value;
  };

 public:
  struct TempStorage {
    lambent::host::CubSlots<Entry, kAll> entries;
  };
  BlockRadixSort() : storage_(&own()) {}
  explicit BlockRadixSort(TempStorage& storage) : storage_(&storage) {}

  LAMBENT_INLINE void Sort(Key (&keys)[Count], int begin = 0, int end = kBits) {
    sort<false, false>(keys, no_values(), begin, end);
  }
  LAMBENT_INLINE void Sort(Key (&keys)[Count], Value (&values)[Count], int begin = 0,
                           int end = kBits) {
    sort<false, false>(keys, values, begin, end);
  }
  LAMBENT_INLINE void SortDescending(Key (&keys)[Count], int begin = 0, int end = kBits) {
    sort<true, false>(keys, no_values(), begin, end);
  }
  LAMBENT_INLINE void SortDescending(Key (&keys)[Count], Value (&values)[Count], int begin = 0,
                                     int end = kBits) {
    sort<true, false>(keys, values, begin, end);
  }
  LAMBENT_INLINE void SortBlockedToStriped(Key (&keys)[Count], int begin = 0, int end = kBits) {
    sort<false, true>(keys, no_values(), begin, end);
  }
  LAMBENT_INLINE void SortBlockedToStriped(Key (&keys)[Count], Value (&values)[Count],
                                           int begin = 0, int end = kBits) {
    sort<false, true>(keys, values, begin, end);
  }
  LAMBENT_INLINE void SortDescendingBlockedToStriped(Key (&keys)[Count], int begin = 0,
                                                     int end = kBits) {
    sort<true, true>(keys, no_values(), begin, end);
  }
  LAMBENT_INLINE void SortDescendingBlockedToStriped(Key (&keys)[Count], Value (&values)[Count],
                                                     int begin = 0, int end = kBits) {
    sort<true, true>(keys, values, begin, end);
  }

 private:
  static TempStorage& own() {
    static __thread TempStorage storage;
    return storage;
  }
  static Value (&no_values())[Count] {
    static __thread Value values[Count];
    return values;
  }

  // The bits from begin to end of a number whose order is the key's. Both zeros have one.
  static uint64_t order_of(const Key& key, int begin, int end) {
    constexpr bool kIsHalf = sizeof(Key) == 2 && lambent::host::adds_in_floating_point<Key>;
    static_assert(std::is_arithmetic_v<Key> || kIsHalf, "BlockRadixSort on the host sorts numbers");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &key, sizeof key);
    const uint64_t sign = uint64_t{1} << (kBits - 1);
    if constexpr (std::is_floating_point_v<Key> || kIsHalf) {
      bits = bits & sign && bits != sign ? ~bits : bits | sign;
    } else if constexpr (std::is_signed_v<Key>) {
      bits ^= sign;
    }
    bits >>= begin;
    const int width = end - begin;
    return width >= 64 ? bits : bits & ((uint64_t{1} << width) - 1);
  }

  template <bool Descending, bool ToStriped>
  LAMBENT_INLINE void sort(Key (&keys)[Count], Value (&values)[Count], int begin, int end) {
    const int thread = lambent::host::cub_rank();
    for (int i = 0; i < Count; ++i) {
      Entry& entry = storage_->entries[thread * Count + i];
      entry.order = order_of(keys[i], begin, end);
      entry.key = keys[i];
      if constexpr (kHasValues) entry.value = values[i];
    }
    __syncthreads();
    if (thread == 0) {
      Entry* first = &storage_->entries[0];
      std::stable_sort(first, first + kAll, [](const Entry& a, const Entry& b) {
        return Descending ? b.order < a.order : a.order < b.order;
      });
    }
    __syncthreads();
    for (int i = 0; i < Count; ++i) {
      const Entry& entry =
          storage_->entries[ToStriped ? thread + i * kThreads : thread * Count + i];
      keys[i] = entry.key;
      if constexpr (kHasValues) values[i] = entry.value;
    }
  }

  TempStorage* storage_;
};

}  // namespace cub
