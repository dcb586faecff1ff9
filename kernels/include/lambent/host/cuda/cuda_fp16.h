// Half precision (__half, __half2) for kernels on the host: arithmetic in single precision, rounded
// once, which gives what a GPU's own instructions give. Values; used by kernels.
#pragma once

#include "lambent/host/conversions.h"
#include "lambent/host/math.h"
#include "lambent/host/small_floats.h"

struct __half;
float __half2float(__half x);

struct alignas(2) __half {
  unsigned short bits = 0;

  __half() = default;
  __half(float x) : bits(lambent::host::HalfFormat::from_float(x)) {}
  __half(double x) : bits(lambent::host::HalfFormat::from_double(x)) {}
  __half(int x) : __half(static_cast<double>(x)) {}
  __half(unsigned x) : __half(static_cast<double>(x)) {}
  __half(long long x) : __half(static_cast<double>(x)) {}
  __half(unsigned long long x) : __half(static_cast<double>(x)) {}
  __half(const struct __half_raw& raw);

  operator float() const { return lambent::host::HalfFormat::to_float(bits); }
};

struct __half_raw {
  unsigned short x;
};
inline __half::__half(const __half_raw& raw) : bits(raw.x) {}

struct alignas(4) __half2 {
  __half x, y;

  __half2() = default;
  __half2(__half a, __half b) : x(a), y(b) {}
};

using half = __half;
using half2 = __half2;
using nv_half = __half;
using nv_half2 = __half2;

template <>
inline constexpr bool lambent::host::adds_in_floating_point<__half> = true;

// Bits.
inline __half __ushort_as_half(unsigned short bits) { return __half_raw{bits}; }
inline unsigned short __half_as_ushort(__half x) { return x.bits; }
inline __half __short_as_half(short bits) { return __half_raw{static_cast<unsigned short>(bits)}; }
inline short __half_as_short(__half x) { return static_cast<short>(x.bits); }

// From and to other numbers.
inline float __half2float(__half x) { return x; }
inline __half __float2half(float x) { return x; }
inline __half __float2half_rn(float x) { return x; }
inline __half __float2half_rz(float x) {
  return __half_raw{lambent::host::HalfFormat::from_double(x, FE_TOWARDZERO)};
}
inline __half __float2half_ru(float x) {
  return __half_raw{lambent::host::HalfFormat::from_double(x, FE_UPWARD)};
}
inline __half __float2half_rd(float x) {
  return __half_raw{lambent::host::HalfFormat::from_double(x, FE_DOWNWARD)};
}
inline __half __double2half(double x) { return x; }
#define LAMBENT_SMALL_INTEGER(type, name)                                               \
  inline __half __##name##2half_rn(type x) { return static_cast<double>(x); }           \
  inline __half __##name##2half_rz(type x) {                                            \
    return __half_raw{                                                                  \
        lambent::host::HalfFormat::from_double(static_cast<double>(x), FE_TOWARDZERO)}; \
  }                                                                                     \
  inline type __half2##name##_rn(__half x) {                                            \
    return lambent::host::to_integer<type>(rint(float{x}));                             \
  }                                                                                     \
  inline type __half2##name##_rz(__half x) {                                            \
    return lambent::host::to_integer<type>(trunc(float{x}));                            \
  }                                                                                     \
  inline type __half2##name##_ru(__half x) {                                            \
    return lambent::host::to_integer<type>(ceil(float{x}));                             \
  }                                                                                     \
  inline type __half2##name##_rd(__half x) {                                            \
    return lambent::host::to_integer<type>(floor(float{x}));                            \
  }
LAMBENT_SMALL_INTEGER(int, int)
LAMBENT_SMALL_INTEGER(unsigned, uint)
LAMBENT_SMALL_INTEGER(short, short)
LAMBENT_SMALL_INTEGER(unsigned short, ushort)
LAMBENT_SMALL_INTEGER(long long, ll)
LAMBENT_SMALL_INTEGER(unsigned long long, ull)
#undef LAMBENT_SMALL_INTEGER

// Pairs.
inline __half2 make_half2(__half x, __half y) { return {x, y}; }
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 __half2half2(__half x) { return {x, x}; }
inline __half2 __float2half2_rn(float x) { return {x, x}; }
inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
inline __half2 __float22half2_rn(float2 v) { return {v.x, v.y}; }
inline float2 __half22float2(__half2 v) { return {v.x, v.y}; }
inline float __low2float(__half2 v) { return v.x; }
inline float __high2float(__half2 v) { return v.y; }
inline __half __low2half(__half2 v) { return v.x; }
inline __half __high2half(__half2 v) { return v.y; }
inline __half2 __low2half2(__half2 v) { return {v.x, v.x}; }
inline __half2 __high2half2(__half2 v) { return {v.y, v.y}; }
inline __half2 __lows2half2(__half2 a, __half2 b) { return {a.x, b.x}; }
inline __half2 __highs2half2(__half2 a, __half2 b) { return {a.y, b.y}; }
inline __half2 __lowhigh2highlow(__half2 v) { return {v.y, v.x}; }

// Arithmetic, alone and in pairs.
#define LAMBENT_SMALL_TWO(name, pair_name, expression) \
  inline __half name(__half first, __half second) {    \
    const float a = first, b = second;                 \
    return expression;                                 \
  }                                                    \
  inline __half2 pair_name(__half2 a, __half2 b) { return {name(a.x, b.x), name(a.y, b.y)}; }
LAMBENT_SMALL_TWO(__hadd, __hadd2, a + b)
LAMBENT_SMALL_TWO(__hsub, __hsub2, a - b)
LAMBENT_SMALL_TWO(__hmul, __hmul2, a* b)
LAMBENT_SMALL_TWO(__hdiv, __h2div, a / b)
LAMBENT_SMALL_TWO(__hadd_rn, __hadd2_rn, a + b)
LAMBENT_SMALL_TWO(__hsub_rn, __hsub2_rn, a - b)
LAMBENT_SMALL_TWO(__hmul_rn, __hmul2_rn, a* b)
LAMBENT_SMALL_TWO(__hadd_sat, __hadd2_sat, __saturatef(__half(a + b)))
LAMBENT_SMALL_TWO(__hsub_sat, __hsub2_sat, __saturatef(__half(a - b)))
LAMBENT_SMALL_TWO(__hmul_sat, __hmul2_sat, __saturatef(__half(a* b)))
LAMBENT_SMALL_TWO(__hmin, __hmin2, fminf(a, b))
LAMBENT_SMALL_TWO(__hmax, __hmax2, fmaxf(a, b))
LAMBENT_SMALL_TWO(__hmin_nan, __hmin2_nan, a != a || b != b ? NAN : fminf(a, b))
LAMBENT_SMALL_TWO(__hmax_nan, __hmax2_nan, a != a || b != b ? NAN : fmaxf(a, b))
#undef LAMBENT_SMALL_TWO
inline __half __hfma(__half a, __half b, __half c) { return fma(double{a}, double{b}, double{c}); }
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
inline __half __hfma_sat(__half a, __half b, __half c) { return __saturatef(__hfma(a, b, c)); }
inline __half __hfma_relu(__half a, __half b, __half c) { return fmaxf(__hfma(a, b, c), 0.0f); }

#define LAMBENT_SMALL_ONE(name, pair_name, expression) \
  inline __half name(__half number) {                  \
    const float x = number;                            \
    return expression;                                 \
  }                                                    \
  inline __half2 pair_name(__half2 v) { return {name(v.x), name(v.y)}; }
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
#define LAMBENT_SMALL_COMPARISON(name, comparison)                                   \
  inline bool __h##name(__half a, __half b) { return float{a} comparison float{b}; } \
  inline __half2 __h##name##2(__half2 a, __half2 b) {                                \
    return {__h##name(a.x, b.x) ? 1.0f : 0.0f, __h##name(a.y, b.y) ? 1.0f : 0.0f};   \
  }                                                                                  \
  inline bool __hb##name##2(__half2 a, __half2 b) {                                  \
    return __h##name(a.x, b.x) && __h##name(a.y, b.y);                               \
  }                                                                                  \
  inline bool operator comparison(__half a, __half b) { return float{a} comparison float{b}; }
LAMBENT_SMALL_COMPARISON(eq, ==)
LAMBENT_SMALL_COMPARISON(ne, !=)
LAMBENT_SMALL_COMPARISON(lt, <)
LAMBENT_SMALL_COMPARISON(le, <=)
LAMBENT_SMALL_COMPARISON(gt, >)
LAMBENT_SMALL_COMPARISON(ge, >=)
#undef LAMBENT_SMALL_COMPARISON
inline bool __hisnan(__half x) { return float{x} != float{x}; }
inline int __hisinf(__half x) {
  return (x.bits & 0x7fff) != lambent::host::HalfFormat::kInfinity ? 0 : x.bits >> 15 ? -1 : 1;
}

#define LAMBENT_SMALL_OPERATOR(symbol, function, pair_function)                         \
  inline __half operator symbol(__half a, __half b) { return function(a, b); }          \
  inline __half2 operator symbol(__half2 a, __half2 b) { return pair_function(a, b); }  \
  inline __half& operator symbol##=(__half& a, __half b) { return a = function(a, b); } \
  inline __half2& operator symbol##=(__half2& a, __half2 b) { return a = pair_function(a, b); }
LAMBENT_SMALL_OPERATOR(+, __hadd, __hadd2)
LAMBENT_SMALL_OPERATOR(-, __hsub, __hsub2)
LAMBENT_SMALL_OPERATOR(*, __hmul, __hmul2)
LAMBENT_SMALL_OPERATOR(/, __hdiv, __h2div)
#undef LAMBENT_SMALL_OPERATOR
inline __half operator-(__half x) { return __hneg(x); }
inline __half2 operator-(__half2 v) { return __hneg2(v); }
