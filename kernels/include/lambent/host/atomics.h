// CUDA's atomic functions and fences on the host, where blocks run on several threads at once.
// Used by kernels; relaxed in order, as on the GPU.
#pragma once

#include <atomic>
#include <cstring>
#include <type_traits>

namespace lambent::host {

template <typename T>
inline constexpr bool is_atomic_integer =
    std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, long long> ||
    std::is_same_v<T, unsigned long long> || std::is_same_v<T, unsigned long>;

// The value as the second argument of an atomic: converts, and does not take part in deduction.
template <typename T>
using Operand = std::type_identity_t<T>;

// Replaces *address by change(*address) in one step; returns what was there.
template <typename T, typename Change>
inline T update(T* address, Change change) {
  T old;
  __atomic_load(address, &old, __ATOMIC_RELAXED);
  T next = change(old);
  while (
      !__atomic_compare_exchange(address, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    next = change(old);
  }
  return old;
}

}  // namespace lambent::host

namespace lambent::host {
// Specialised for types of two bytes that add in floating point.
template <typename T>
inline constexpr bool adds_in_floating_point = std::is_floating_point_v<T>;
}  // namespace lambent::host

template <typename T>
inline T atomicAdd(T* address, lambent::host::Operand<T> value) {
  if constexpr (lambent::host::adds_in_floating_point<T>) {
    return lambent::host::update(address, [value](T old) -> T { return old + value; });
  } else {
    static_assert(lambent::host::is_atomic_integer<T>, "atomicAdd: no such type");
    return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
  }
}

template <typename T>
inline T atomicSub(T* address, lambent::host::Operand<T> value) {
  static_assert(lambent::host::is_atomic_integer<T>, "atomicSub is for integers");
  return __atomic_fetch_sub(address, value, __ATOMIC_RELAXED);
}

template <typename T>
inline T atomicExch(T* address, lambent::host::Operand<T> value) {
  static_assert(lambent::host::is_atomic_integer<T> || std::is_same_v<T, float>,
                "atomicExch: no such type");
  T old;
  __atomic_exchange(address, &value, &old, __ATOMIC_RELAXED);
  return old;
}

template <typename T>
inline T atomicCAS(T* address, lambent::host::Operand<T> expected,
                   lambent::host::Operand<T> value) {
  static_assert(lambent::host::is_atomic_integer<T> || std::is_same_v<T, unsigned short>,
                "atomicCAS is for integers");
  __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}

#define LAMBENT_ATOMIC(function, expression)                                           \
  template <typename T>                                                                \
  inline T function(T* address, lambent::host::Operand<T> value) {                     \
    static_assert(lambent::host::is_atomic_integer<T>, #function " is for integers");  \
    return lambent::host::update(address, [value](T old) -> T { return expression; }); \
  }
LAMBENT_ATOMIC(atomicMin, old < value ? old : value)
LAMBENT_ATOMIC(atomicMax, old > value ? old : value)
LAMBENT_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
LAMBENT_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
LAMBENT_ATOMIC(atomicAnd, old& value)
LAMBENT_ATOMIC(atomicOr, old | value)
LAMBENT_ATOMIC(atomicXor, old ^ value)
#undef LAMBENT_ATOMIC

inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence_system() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence_block() { std::atomic_signal_fence(std::memory_order_seq_cst); }

// The other scopes: no narrower one is any cheaper here.
#define LAMBENT_ATOMIC_SCOPES(function)                      \
  template <typename T, typename... Values>                  \
  inline T function##_block(T* address, Values... values) {  \
    return function(address, values...);                     \
  }                                                          \
  template <typename T, typename... Values>                  \
  inline T function##_system(T* address, Values... values) { \
    return function(address, values...);                     \
  }
LAMBENT_ATOMIC_SCOPES(atomicAdd)
LAMBENT_ATOMIC_SCOPES(atomicSub)
LAMBENT_ATOMIC_SCOPES(atomicExch)
LAMBENT_ATOMIC_SCOPES(atomicCAS)
LAMBENT_ATOMIC_SCOPES(atomicMin)
LAMBENT_ATOMIC_SCOPES(atomicMax)
LAMBENT_ATOMIC_SCOPES(atomicInc)
LAMBENT_ATOMIC_SCOPES(atomicDec)
LAMBENT_ATOMIC_SCOPES(atomicAnd)
LAMBENT_ATOMIC_SCOPES(atomicOr)
LAMBENT_ATOMIC_SCOPES(atomicXor)
#undef LAMBENT_ATOMIC_SCOPES

// Loads and stores with a hint for a cache that is not there.
#define LAMBENT_LOAD(function)          \
  template <typename T>                 \
  inline T function(const T* address) { \
    return *address;                    \
  }
LAMBENT_LOAD(__ldg)
LAMBENT_LOAD(__ldca)
LAMBENT_LOAD(__ldcg)
LAMBENT_LOAD(__ldcs)
LAMBENT_LOAD(__ldlu)
#undef LAMBENT_LOAD
template <typename T>
inline T __ldcv(const T* address) {
  return *static_cast<const volatile T*>(address);
}
#define LAMBENT_STORE(function)                                       \
  template <typename T>                                               \
  inline void function(T* address, lambent::host::Operand<T> value) { \
    *address = value;                                                 \
  }
LAMBENT_STORE(__stwb)
LAMBENT_STORE(__stcg)
LAMBENT_STORE(__stcs)
LAMBENT_STORE(__stwt)
#undef LAMBENT_STORE
