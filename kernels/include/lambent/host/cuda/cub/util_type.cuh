// What the parts of CUB for blocks and warps share on the host: storage, operations, pairs, and the
// words for the device's own algorithms, which are not there. Used by kernels.
#pragma once

#include <lambent/kernel.h>

#include <cassert>
#include <cstddef>
#include <limits>
#include <type_traits>

namespace cub {

struct NullType {
  bool operator==(const NullType&) const { return true; }
};

template <typename Key_, typename Value_>
struct KeyValuePair {
  using Key = Key_;
  using Value = Value_;
  Key key;
  Value value;
  KeyValuePair() = default;
  constexpr KeyValuePair(const Key& k, const Value& v) : key(k), value(v) {}
  bool operator!=(const KeyValuePair& other) const {
    return key != other.key || value != other.value;
  }
};

// The operations that CUB had before CUDA 13, by names of its own.
#define LAMBENT_CUB_OPERATION(name, expression)               \
  struct name {                                               \
    template <typename T, typename U>                         \
    constexpr auto operator()(const T& a, const U& b) const { \
      using Result = std::common_type_t<T, U>;                \
      return static_cast<Result>(expression);                 \
    }                                                         \
  };
LAMBENT_CUB_OPERATION(Sum, a + b)
LAMBENT_CUB_OPERATION(Difference, a - b)
LAMBENT_CUB_OPERATION(Division, a / b)
LAMBENT_CUB_OPERATION(Max, a < b ? b : a)
LAMBENT_CUB_OPERATION(Min, b < a ? b : a)
#undef LAMBENT_CUB_OPERATION

struct Equality {
  template <typename T, typename U>
  constexpr bool operator()(const T& a, const U& b) const {
    return a == b;
  }
};
struct Inequality {
  template <typename T, typename U>
  constexpr bool operator()(const T& a, const U& b) const {
    return a != b;
  }
};

// Of pairs of an offset and a value; of equal values the one with the smaller offset.
struct ArgMax {
  template <typename Offset, typename T>
  constexpr KeyValuePair<Offset, T> operator()(const KeyValuePair<Offset, T>& a,
                                               const KeyValuePair<Offset, T>& b) const {
    return b.value > a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};
struct ArgMin {
  template <typename Offset, typename T>
  constexpr KeyValuePair<Offset, T> operator()(const KeyValuePair<Offset, T>& a,
                                               const KeyValuePair<Offset, T>& b) const {
    return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};

template <typename T>
struct Uninitialized {
  alignas(T) unsigned char bytes[sizeof(T)];
  T& Alias() { return *reinterpret_cast<T*>(bytes); }
};

template <typename T>
struct Traits {
  static constexpr T Max() { return std::numeric_limits<T>::max(); }
  static constexpr T Lowest() { return std::numeric_limits<T>::lowest(); }
};

inline int RowMajorTid(int, int, int) {
  return static_cast<int>(lambent::host::linear(threadIdx));
}

}  // namespace cub

namespace lambent::host {

// Room for values of the threads of a block, which has no constructor: it lies in shared memory.
template <typename T, int Count>
struct CubSlots {
  static_assert(std::is_trivially_copyable_v<T> || std::is_trivially_destructible_v<T>,
                "CUB's blocks and warps exchange plain values on the host");
  alignas(T) unsigned char bytes[sizeof(T) * Count];
  T& operator[](int i) { return reinterpret_cast<T*>(bytes)[i]; }
};

inline int cub_rank() { return static_cast<int>(linear(threadIdx)); }

// The first `count` values as a warp's shuffles would combine them: pairs, then pairs of pairs, and
// then the warps one after the other.
template <typename Slots, typename Operation>
auto cub_fold(Slots& slots, int count, Operation& operation) {
  for (int begin = 0; begin < count; begin += static_cast<int>(kWarp)) {
    const int end = begin + static_cast<int>(kWarp) < count ? begin + static_cast<int>(kWarp) : count;
    for (int step = 1; step < static_cast<int>(kWarp); step *= 2) {
      for (int i = begin; i + step < end; i += 2 * step) {
        slots[i] = operation(slots[i], slots[i + step]);
      }
    }
  }
  auto result = slots[0];
  for (int i = static_cast<int>(kWarp); i < count; i += static_cast<int>(kWarp)) {
    result = operation(result, slots[i]);
  }
  return result;
}

// Each value becomes what stands before it, the first stays; the result is the sum of all.
template <typename Slots, typename Operation>
auto cub_scan(Slots& slots, int count, Operation& operation) {
  auto running = slots[0];
  for (int i = 1; i < count; ++i) {
    const auto value = slots[i];
    slots[i] = running;
    running = operation(running, value);
  }
  return running;
}

template <int Count, typename T, typename Operation>
T cub_fold_items(const T (&items)[Count], Operation& operation) {
  T result = items[0];
  for (int i = 1; i < Count; ++i) result = operation(result, items[i]);
  return result;
}

struct CubPlus {
  template <typename T>
  constexpr T operator()(const T& a, const T& b) const {
    return static_cast<T>(a + b);
  }
};

// The lanes of a warp's part of `width`, as a mask, and a lane's number in its part.
inline unsigned cub_part_mask(int width) {
  const unsigned lanes = width >= 32 ? ~0u : (1u << width) - 1;
  return width >= 32 ? ~0u : lanes << (lane() / static_cast<unsigned>(width) * width);
}
inline int cub_part_lane(int width) {
  return static_cast<int>(lane() % static_cast<unsigned>(width));
}

}  // namespace lambent::host
