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
template <>
inline constexpr bool lambent::host::adds_in_floating_point<__half2> = true;

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
#define LAMBENT_SMALL_INTEGER(type, name)                                                         \
  inline __half __##name##2half_rn(type x) { return static_cast<double>(x); }                     \
  inline __half __##name##2half_rz(type x) {                                                      \
    return __half_raw{                                                                            \
        lambent::host::HalfFormat::from_double(static_cast<double>(x), FE_TOWARDZERO)};           \
  }                                                                                               \
  inline __half __##name##2half_ru(type x) {                                                      \
    return __half_raw{lambent::host::HalfFormat::from_double(static_cast<double>(x), FE_UPWARD)}; \
  }                                                                                               \
  inline __half __##name##2half_rd(type x) {                                                      \
    return __half_raw{                                                                            \
        lambent::host::HalfFormat::from_double(static_cast<double>(x), FE_DOWNWARD)};             \
  }                                                                                               \
  inline type __half2##name##_rn(__half x) {                                                      \
    return lambent::host::to_integer<type>(rint(float{x}));                                       \
  }                                                                                               \
  inline type __half2##name##_rz(__half x) {                                                      \
    return lambent::host::to_integer<type>(trunc(float{x}));                                      \
  }                                                                                               \
  inline type __half2##name##_ru(__half x) {                                                      \
    return lambent::host::to_integer<type>(ceil(float{x}));                                       \
  }                                                                                               \
  inline type __half2##name##_rd(__half x) {                                                      \
    return lambent::host::to_integer<type>(floor(float{x}));                                      \
  }
LAMBENT_SMALL_INTEGER(int, int)
LAMBENT_SMALL_INTEGER(unsigned, uint)
LAMBENT_SMALL_INTEGER(short, short)
LAMBENT_SMALL_INTEGER(unsigned short, ushort)
LAMBENT_SMALL_INTEGER(long long, ll)
LAMBENT_SMALL_INTEGER(unsigned long long, ull)
#undef LAMBENT_SMALL_INTEGER
inline signed char __half2char_rz(__half x) {
  return lambent::host::to_integer<signed char>(trunc(float{x}));
}
inline unsigned char __half2uchar_rz(__half x) {
  return lambent::host::to_integer<unsigned char>(trunc(float{x}));
}

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

#define LAMBENT_SMALL_FLOAT __half
#define LAMBENT_SMALL_PAIR __half2
#define LAMBENT_SMALL_FORMAT lambent::host::HalfFormat
#include "lambent/host/small_float_operations.inc"
#undef LAMBENT_SMALL_FLOAT
#undef LAMBENT_SMALL_PAIR
#undef LAMBENT_SMALL_FORMAT
