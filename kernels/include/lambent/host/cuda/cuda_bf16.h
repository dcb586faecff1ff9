// Brain floating point (__nv_bfloat16, __nv_bfloat162) for kernels on the host: arithmetic in
// single precision, rounded once, which gives what a GPU's own instructions give. Values; used by
// kernels.
#pragma once

#include "lambent/host/conversions.h"
#include "lambent/host/math.h"
#include "lambent/host/small_floats.h"

struct __nv_bfloat16;
float __bfloat162float(__nv_bfloat16 x);

struct alignas(2) __nv_bfloat16 {
  unsigned short bits = 0;

  __nv_bfloat16() = default;
  __nv_bfloat16(float x) : bits(lambent::host::BrainFormat::from_float(x)) {}
  __nv_bfloat16(double x) : bits(lambent::host::BrainFormat::from_double(x)) {}
  __nv_bfloat16(int x) : __nv_bfloat16(static_cast<double>(x)) {}
  __nv_bfloat16(unsigned x) : __nv_bfloat16(static_cast<double>(x)) {}
  __nv_bfloat16(long long x) : __nv_bfloat16(static_cast<double>(x)) {}
  __nv_bfloat16(unsigned long long x) : __nv_bfloat16(static_cast<double>(x)) {}
  __nv_bfloat16(const struct __nv_bfloat16_raw& raw);

  operator float() const { return lambent::host::BrainFormat::to_float(bits); }
};

struct __nv_bfloat16_raw {
  unsigned short x;
};
inline __nv_bfloat16::__nv_bfloat16(const __nv_bfloat16_raw& raw) : bits(raw.x) {}

struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;

  __nv_bfloat162() = default;
  __nv_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) : x(a), y(b) {}
};

using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

template <>
inline constexpr bool lambent::host::adds_in_floating_point<__nv_bfloat16> = true;

// Bits.
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __nv_bfloat16_raw{bits}; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
inline __nv_bfloat16 __short_as_bfloat16(short bits) {
  return __nv_bfloat16_raw{static_cast<unsigned short>(bits)};
}
inline short __bfloat16_as_short(__nv_bfloat16 x) { return static_cast<short>(x.bits); }

// From and to other numbers.
inline float __bfloat162float(__nv_bfloat16 x) { return x; }
inline __nv_bfloat16 __float2bfloat16(float x) { return x; }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return x; }
inline __nv_bfloat16 __float2bfloat16_rz(float x) {
  return __nv_bfloat16_raw{lambent::host::BrainFormat::from_double(x, FE_TOWARDZERO)};
}
inline __nv_bfloat16 __float2bfloat16_ru(float x) {
  return __nv_bfloat16_raw{lambent::host::BrainFormat::from_double(x, FE_UPWARD)};
}
inline __nv_bfloat16 __float2bfloat16_rd(float x) {
  return __nv_bfloat16_raw{lambent::host::BrainFormat::from_double(x, FE_DOWNWARD)};
}
inline __nv_bfloat16 __double2bfloat16(double x) { return x; }
#define LAMBENT_SMALL_INTEGER(type, name)                                                \
  inline __nv_bfloat16 __##name##2bfloat16_rn(type x) { return static_cast<double>(x); } \
  inline __nv_bfloat16 __##name##2bfloat16_rz(type x) {                                  \
    return __nv_bfloat16_raw{                                                            \
        lambent::host::BrainFormat::from_double(static_cast<double>(x), FE_TOWARDZERO)}; \
  }                                                                                      \
  inline type __bfloat162##name##_rn(__nv_bfloat16 x) {                                  \
    return lambent::host::to_integer<type>(rint(float{x}));                              \
  }                                                                                      \
  inline type __bfloat162##name##_rz(__nv_bfloat16 x) {                                  \
    return lambent::host::to_integer<type>(trunc(float{x}));                             \
  }                                                                                      \
  inline type __bfloat162##name##_ru(__nv_bfloat16 x) {                                  \
    return lambent::host::to_integer<type>(ceil(float{x}));                              \
  }                                                                                      \
  inline type __bfloat162##name##_rd(__nv_bfloat16 x) {                                  \
    return lambent::host::to_integer<type>(floor(float{x}));                             \
  }
LAMBENT_SMALL_INTEGER(int, int)
LAMBENT_SMALL_INTEGER(unsigned, uint)
LAMBENT_SMALL_INTEGER(short, short)
LAMBENT_SMALL_INTEGER(unsigned short, ushort)
LAMBENT_SMALL_INTEGER(long long, ll)
LAMBENT_SMALL_INTEGER(unsigned long long, ull)
#undef LAMBENT_SMALL_INTEGER

// Pairs.
inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return {x, x}; }
inline __nv_bfloat162 __float2bfloat162_rn(float x) { return {x, x}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {v.x, v.y}; }
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {v.x, v.y}; }
inline float __low2float(__nv_bfloat162 v) { return v.x; }
inline float __high2float(__nv_bfloat162 v) { return v.y; }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
inline __nv_bfloat162 __low2bfloat162(__nv_bfloat162 v) { return {v.x, v.x}; }
inline __nv_bfloat162 __high2bfloat162(__nv_bfloat162 v) { return {v.y, v.y}; }
inline __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x, b.x}; }
inline __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.y, b.y}; }
inline __nv_bfloat162 __lowhigh2highlow(__nv_bfloat162 v) { return {v.y, v.x}; }

// Arithmetic, alone and in pairs.
#define LAMBENT_SMALL_TWO(name, pair_name, expression)                   \
  inline __nv_bfloat16 name(__nv_bfloat16 first, __nv_bfloat16 second) { \
    const float a = first, b = second;                                   \
    return expression;                                                   \
  }                                                                      \
  inline __nv_bfloat162 pair_name(__nv_bfloat162 a, __nv_bfloat162 b) {  \
    return {name(a.x, b.x), name(a.y, b.y)};                             \
  }
LAMBENT_SMALL_TWO(__hadd, __hadd2, a + b)
LAMBENT_SMALL_TWO(__hsub, __hsub2, a - b)
LAMBENT_SMALL_TWO(__hmul, __hmul2, a* b)
LAMBENT_SMALL_TWO(__hdiv, __h2div, a / b)
LAMBENT_SMALL_TWO(__hadd_rn, __hadd2_rn, a + b)
LAMBENT_SMALL_TWO(__hsub_rn, __hsub2_rn, a - b)
LAMBENT_SMALL_TWO(__hmul_rn, __hmul2_rn, a* b)
LAMBENT_SMALL_TWO(__hadd_sat, __hadd2_sat, __saturatef(__nv_bfloat16(a + b)))
LAMBENT_SMALL_TWO(__hsub_sat, __hsub2_sat, __saturatef(__nv_bfloat16(a - b)))
LAMBENT_SMALL_TWO(__hmul_sat, __hmul2_sat, __saturatef(__nv_bfloat16(a* b)))
LAMBENT_SMALL_TWO(__hmin, __hmin2, fminf(a, b))
LAMBENT_SMALL_TWO(__hmax, __hmax2, fmaxf(a, b))
LAMBENT_SMALL_TWO(__hmin_nan, __hmin2_nan, a != a || b != b ? NAN : fminf(a, b))
LAMBENT_SMALL_TWO(__hmax_nan, __hmax2_nan, a != a || b != b ? NAN : fmaxf(a, b))
#undef LAMBENT_SMALL_TWO
inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  return fma(double{a}, double{b}, double{c});
}
inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
inline __nv_bfloat16 __hfma_sat(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  return __saturatef(__hfma(a, b, c));
}
inline __nv_bfloat16 __hfma_relu(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  return fmaxf(__hfma(a, b, c), 0.0f);
}

#define LAMBENT_SMALL_ONE(name, pair_name, expression) \
  inline __nv_bfloat16 name(__nv_bfloat16 number) {    \
    const float x = number;                            \
    return expression;                                 \
  }                                                    \
  inline __nv_bfloat162 pair_name(__nv_bfloat162 v) { return {name(v.x), name(v.y)}; }
LAMBENT_SMALL_ONE(__hneg, __hneg2, -x)
LAMBENT_SMALL_ONE(__habs, __habs2, fabsf(x))
LAMBENT_SMALL_ONE(hsqrt, h2sqrt, sqrtf(x))
LAMBENT_SMALL_ONE(hrsqrt, h2rsqrt, 1.0 / sqrt(double{x}))
LAMBENT_SMALL_ONE(hrcp, h2rcp, 1.0f / x)
LAMBENT_SMALL_ONE(hexp, h2exp, exp(double{x}))
LAMBENT_SMALL_ONE(hexp2, h2exp2, exp2(double{x}))
LAMBENT_SMALL_ONE(hexp10, h2exp10, exp10(double{x}))
LAMBENT_SMALL_ONE(hlog, h2log, log(double{x}))
LAMBENT_SMALL_ONE(hlog2, h2log2, log2(double{x}))
LAMBENT_SMALL_ONE(hlog10, h2log10, log10(double{x}))
LAMBENT_SMALL_ONE(hsin, h2sin, sin(double{x}))
LAMBENT_SMALL_ONE(hcos, h2cos, cos(double{x}))
LAMBENT_SMALL_ONE(htanh, h2tanh, tanh(double{x}))
LAMBENT_SMALL_ONE(hfloor, h2floor, floorf(x))
LAMBENT_SMALL_ONE(hceil, h2ceil, ceilf(x))
LAMBENT_SMALL_ONE(htrunc, h2trunc, truncf(x))
LAMBENT_SMALL_ONE(hrint, h2rint, rintf(x))
#undef LAMBENT_SMALL_ONE

// Comparisons. Those of pairs give 1 or 0 in each half; __hb..2 are true if both halves are.
#define LAMBENT_SMALL_COMPARISON(name, comparison)                                                 \
  inline bool __h##name(__nv_bfloat16 a, __nv_bfloat16 b) { return float{a} comparison float{b}; } \
  inline __nv_bfloat162 __h##name##2(__nv_bfloat162 a, __nv_bfloat162 b) {                         \
    return {__h##name(a.x, b.x) ? 1.0f : 0.0f, __h##name(a.y, b.y) ? 1.0f : 0.0f};                 \
  }                                                                                                \
  inline bool __hb##name##2(__nv_bfloat162 a, __nv_bfloat162 b) {                                  \
    return __h##name(a.x, b.x) && __h##name(a.y, b.y);                                             \
  }                                                                                                \
  inline bool operator comparison(__nv_bfloat16 a, __nv_bfloat16 b) {                              \
    return float{a} comparison float{b};                                                           \
  }
LAMBENT_SMALL_COMPARISON(eq, ==)
LAMBENT_SMALL_COMPARISON(ne, !=)
LAMBENT_SMALL_COMPARISON(lt, <)
LAMBENT_SMALL_COMPARISON(le, <=)
LAMBENT_SMALL_COMPARISON(gt, >)
LAMBENT_SMALL_COMPARISON(ge, >=)
#undef LAMBENT_SMALL_COMPARISON
inline bool __hisnan(__nv_bfloat16 x) { return float{x} != float{x}; }
inline int __hisinf(__nv_bfloat16 x) {
  return (x.bits & 0x7fff) != lambent::host::BrainFormat::kInfinity ? 0 : x.bits >> 15 ? -1 : 1;
}

#define LAMBENT_SMALL_OPERATOR(symbol, function, pair_function)                    \
  inline __nv_bfloat16 operator symbol(__nv_bfloat16 a, __nv_bfloat16 b) {         \
    return function(a, b);                                                         \
  }                                                                                \
  inline __nv_bfloat162 operator symbol(__nv_bfloat162 a, __nv_bfloat162 b) {      \
    return pair_function(a, b);                                                    \
  }                                                                                \
  inline __nv_bfloat16& operator symbol##=(__nv_bfloat16& a, __nv_bfloat16 b) {    \
    return a = function(a, b);                                                     \
  }                                                                                \
  inline __nv_bfloat162& operator symbol##=(__nv_bfloat162& a, __nv_bfloat162 b) { \
    return a = pair_function(a, b);                                                \
  }
LAMBENT_SMALL_OPERATOR(+, __hadd, __hadd2)
LAMBENT_SMALL_OPERATOR(-, __hsub, __hsub2)
LAMBENT_SMALL_OPERATOR(*, __hmul, __hmul2)
LAMBENT_SMALL_OPERATOR(/, __hdiv, __h2div)
#undef LAMBENT_SMALL_OPERATOR
inline __nv_bfloat16 operator-(__nv_bfloat16 x) { return __hneg(x); }
inline __nv_bfloat162 operator-(__nv_bfloat162 v) { return __hneg2(v); }
