// Arithmetic with a stated rounding. _rn is what the processor does anyway; the others change its
// mode for one operation and are slow. Pure; used by kernels.
#pragma once

#include <fenv.h>
#include <math.h>

namespace lambent::host {

#if defined(__x86_64__)
// The C library's would set the mode of the x87 unit as well, in which nothing is computed here:
// five times as slow.
inline unsigned begin_rounding(int mode) {
  unsigned before, during;
  asm volatile("stmxcsr %0" : "=m"(before) : : "memory");
  during = (before & ~0x6000u) | static_cast<unsigned>(mode) << 3;
  asm volatile("ldmxcsr %0" : : "m"(during) : "memory");
  return before;
}
inline void end_rounding(unsigned before) { asm volatile("ldmxcsr %0" : : "m"(before) : "memory"); }
#else
inline int begin_rounding(int mode) {
  const int before = fegetround();
  fesetround(mode);
  return before;
}
inline void end_rounding(int before) { fesetround(before); }
#endif

// Operands pass through volatiles so that nothing is computed outside of the mode.
template <typename Operation>
__attribute__((noinline)) inline auto rounded(int mode, Operation operation) {
  const auto before = begin_rounding(mode);
  volatile auto result = operation();
  end_rounding(before);
  return +result;
}

template <typename To, typename From>
inline To convert(int mode, From from) {
  volatile From x = from;
  return rounded(mode, [&] { return static_cast<To>(x); });
}

}  // namespace lambent::host

#define LAMBENT_ROUNDED_TWO(type, name, expression)                      \
  inline type __##name##_rn(type x, type y) { return expression; }       \
  LAMBENT_ROUNDED_TWO_AS(type, __##name##_rz, FE_TOWARDZERO, expression) \
  LAMBENT_ROUNDED_TWO_AS(type, __##name##_ru, FE_UPWARD, expression)     \
  LAMBENT_ROUNDED_TWO_AS(type, __##name##_rd, FE_DOWNWARD, expression)
#define LAMBENT_ROUNDED_TWO_AS(type, name, mode, expression)                   \
  inline type name(type first, type second) {                                  \
    volatile type x = first, y = second;                                       \
    return lambent::host::rounded(mode, [&]() -> type { return expression; }); \
  }
#define LAMBENT_ROUNDED_ONE(type, name, expression)                      \
  inline type __##name##_rn(type x) { return expression; }               \
  LAMBENT_ROUNDED_ONE_AS(type, __##name##_rz, FE_TOWARDZERO, expression) \
  LAMBENT_ROUNDED_ONE_AS(type, __##name##_ru, FE_UPWARD, expression)     \
  LAMBENT_ROUNDED_ONE_AS(type, __##name##_rd, FE_DOWNWARD, expression)
#define LAMBENT_ROUNDED_ONE_AS(type, name, mode, expression)                   \
  inline type name(type operand) {                                             \
    volatile type x = operand;                                                 \
    return lambent::host::rounded(mode, [&]() -> type { return expression; }); \
  }
#define LAMBENT_ROUNDED_FMA(type, name, function)                                 \
  inline type __##name##_rn(type x, type y, type z) { return function(x, y, z); } \
  LAMBENT_ROUNDED_FMA_AS(type, __##name##_rz, FE_TOWARDZERO, function)            \
  LAMBENT_ROUNDED_FMA_AS(type, __##name##_ru, FE_UPWARD, function)                \
  LAMBENT_ROUNDED_FMA_AS(type, __##name##_rd, FE_DOWNWARD, function)
#define LAMBENT_ROUNDED_FMA_AS(type, name, mode, function)                            \
  inline type name(type first, type second, type third) {                             \
    volatile type x = first, y = second, z = third;                                   \
    return lambent::host::rounded(mode, [&]() -> type { return function(x, y, z); }); \
  }
LAMBENT_ROUNDED_TWO(float, fadd, x + y)
LAMBENT_ROUNDED_TWO(float, fsub, x - y)
LAMBENT_ROUNDED_TWO(float, fmul, x* y)
LAMBENT_ROUNDED_TWO(float, fdiv, x / y)
LAMBENT_ROUNDED_ONE(float, fsqrt, sqrtf(x))
LAMBENT_ROUNDED_ONE(float, frcp, 1.0f / x)
LAMBENT_ROUNDED_FMA(float, fmaf, fmaf)
LAMBENT_ROUNDED_TWO(double, dadd, x + y)
LAMBENT_ROUNDED_TWO(double, dsub, x - y)
LAMBENT_ROUNDED_TWO(double, dmul, x* y)
LAMBENT_ROUNDED_TWO(double, ddiv, x / y)
LAMBENT_ROUNDED_ONE(double, dsqrt, sqrt(x))
LAMBENT_ROUNDED_ONE(double, drcp, 1.0 / x)
LAMBENT_ROUNDED_FMA(double, fma, fma)
inline float __frsqrt_rn(float x) { return static_cast<float>(1.0 / sqrt(double{x})); }
#undef LAMBENT_ROUNDED_TWO
#undef LAMBENT_ROUNDED_TWO_AS
#undef LAMBENT_ROUNDED_ONE
#undef LAMBENT_ROUNDED_ONE_AS
#undef LAMBENT_ROUNDED_FMA
#undef LAMBENT_ROUNDED_FMA_AS
