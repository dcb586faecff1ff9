// __nv_atomic_load_n and its kin: atomics that name their order and scope. No scope is cheaper here
// than any other. Used by kernels.
#pragma once

#include "lambent/host/atomics.h"

enum {
  __NV_ATOMIC_RELAXED,
  __NV_ATOMIC_CONSUME,
  __NV_ATOMIC_ACQUIRE,
  __NV_ATOMIC_RELEASE,
  __NV_ATOMIC_ACQ_REL,
  __NV_ATOMIC_SEQ_CST
};
enum {
  __NV_THREAD_SCOPE_THREAD,
  __NV_THREAD_SCOPE_BLOCK,
  __NV_THREAD_SCOPE_CLUSTER,
  __NV_THREAD_SCOPE_DEVICE,
  __NV_THREAD_SCOPE_SYSTEM
};

template <typename T>
inline T __nv_atomic_load_n(T* address, int, int = __NV_THREAD_SCOPE_SYSTEM) {
  T value;
  __atomic_load(address, &value, __ATOMIC_SEQ_CST);
  return value;
}
template <typename T>
inline void __nv_atomic_load(T* address, T* value, int, int = __NV_THREAD_SCOPE_SYSTEM) {
  __atomic_load(address, value, __ATOMIC_SEQ_CST);
}
template <typename T>
inline void __nv_atomic_store_n(T* address, lambent::host::Operand<T> value, int,
                                int = __NV_THREAD_SCOPE_SYSTEM) {
  __atomic_store(address, &value, __ATOMIC_SEQ_CST);
}
template <typename T>
inline void __nv_atomic_store(T* address, T* value, int, int = __NV_THREAD_SCOPE_SYSTEM) {
  __atomic_store(address, value, __ATOMIC_SEQ_CST);
}
template <typename T>
inline T __nv_atomic_exchange_n(T* address, lambent::host::Operand<T> value, int,
                                int = __NV_THREAD_SCOPE_SYSTEM) {
  T old;
  __atomic_exchange(address, &value, &old, __ATOMIC_SEQ_CST);
  return old;
}
template <typename T>
inline void __nv_atomic_exchange(T* address, T* value, T* old, int,
                                 int = __NV_THREAD_SCOPE_SYSTEM) {
  __atomic_exchange(address, value, old, __ATOMIC_SEQ_CST);
}
template <typename T>
inline bool __nv_atomic_compare_exchange(T* address, T* expected, T* value, bool, int, int,
                                         int = __NV_THREAD_SCOPE_SYSTEM) {
  return __atomic_compare_exchange(address, expected, value, false, __ATOMIC_SEQ_CST,
                                   __ATOMIC_SEQ_CST);
}
template <typename T>
inline bool __nv_atomic_compare_exchange_n(T* address, T* expected, lambent::host::Operand<T> value,
                                           bool, int, int, int = __NV_THREAD_SCOPE_SYSTEM) {
  return __atomic_compare_exchange(address, expected, &value, false, __ATOMIC_SEQ_CST,
                                   __ATOMIC_SEQ_CST);
}

// Each also without its result.
#define LAMBENT_ORDERED(operation, function)                                               \
  template <typename T>                                                                    \
  inline T __nv_atomic_fetch_##operation(T* address, lambent::host::Operand<T> value, int, \
                                         int = __NV_THREAD_SCOPE_SYSTEM) {                 \
    std::atomic_thread_fence(std::memory_order_seq_cst);                                   \
    const T old = function(address, value);                                                \
    std::atomic_thread_fence(std::memory_order_seq_cst);                                   \
    return old;                                                                            \
  }                                                                                        \
  template <typename T>                                                                    \
  inline void __nv_atomic_##operation(T* address, lambent::host::Operand<T> value,         \
                                      int order = __NV_ATOMIC_RELAXED,                     \
                                      int scope = __NV_THREAD_SCOPE_SYSTEM) {              \
    __nv_atomic_fetch_##operation(address, value, order, scope);                           \
  }
LAMBENT_ORDERED(add, atomicAdd)
LAMBENT_ORDERED(sub, atomicSub)
LAMBENT_ORDERED(min, atomicMin)
LAMBENT_ORDERED(max, atomicMax)
LAMBENT_ORDERED(and, atomicAnd)
LAMBENT_ORDERED(or, atomicOr)
LAMBENT_ORDERED(xor, atomicXor)
#undef LAMBENT_ORDERED

inline void __nv_atomic_thread_fence(int, int = __NV_THREAD_SCOPE_SYSTEM) { __threadfence(); }
