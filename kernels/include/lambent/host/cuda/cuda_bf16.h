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
  __nv_bfloat16(int x) : bits(lambent::host::BrainFormat::from_integer(x)) {}
  __nv_bfloat16(unsigned x) : bits(lambent::host::BrainFormat::from_integer(x)) {}
  __nv_bfloat16(long long x) : bits(lambent::host::BrainFormat::from_integer(x)) {}
  __nv_bfloat16(unsigned long long x) : bits(lambent::host::BrainFormat::from_integer(x)) {}
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
template <>
inline constexpr bool lambent::host::adds_in_floating_point<__nv_bfloat162> = true;

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
#define LAMBENT_SMALL_INTEGER(type, name)                                                 \
  inline __nv_bfloat16 __##name##2bfloat16_rn(type x) {                                   \
    return __nv_bfloat16_raw{lambent::host::BrainFormat::from_integer(x)};                \
  }                                                                                       \
  inline __nv_bfloat16 __##name##2bfloat16_rz(type x) {                                   \
    return __nv_bfloat16_raw{lambent::host::BrainFormat::from_integer(x, FE_TOWARDZERO)}; \
  }                                                                                       \
  inline __nv_bfloat16 __##name##2bfloat16_ru(type x) {                                   \
    return __nv_bfloat16_raw{lambent::host::BrainFormat::from_integer(x, FE_UPWARD)};     \
  }                                                                                       \
  inline __nv_bfloat16 __##name##2bfloat16_rd(type x) {                                   \
    return __nv_bfloat16_raw{lambent::host::BrainFormat::from_integer(x, FE_DOWNWARD)};   \
  }                                                                                       \
  inline type __bfloat162##name##_rn(__nv_bfloat16 x) {                                   \
    return lambent::host::to_integer<type>(rint(float{x}));                               \
  }                                                                                       \
  inline type __bfloat162##name##_rz(__nv_bfloat16 x) {                                   \
    return lambent::host::to_integer<type>(trunc(float{x}));                              \
  }                                                                                       \
  inline type __bfloat162##name##_ru(__nv_bfloat16 x) {                                   \
    return lambent::host::to_integer<type>(ceil(float{x}));                               \
  }                                                                                       \
  inline type __bfloat162##name##_rd(__nv_bfloat16 x) {                                   \
    return lambent::host::to_integer<type>(floor(float{x}));                              \
  }
LAMBENT_SMALL_INTEGER(int, int)
LAMBENT_SMALL_INTEGER(unsigned, uint)
LAMBENT_SMALL_INTEGER(short, short)
LAMBENT_SMALL_INTEGER(unsigned short, ushort)
LAMBENT_SMALL_INTEGER(long long, ll)
LAMBENT_SMALL_INTEGER(unsigned long long, ull)
#undef LAMBENT_SMALL_INTEGER
inline signed char __bfloat162char_rz(__nv_bfloat16 x) {
  return lambent::host::to_integer<signed char>(trunc(float{x}));
}
inline unsigned char __bfloat162uchar_rz(__nv_bfloat16 x) {
  return lambent::host::to_integer<unsigned char>(trunc(float{x}));
}

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

#define LAMBENT_SMALL_FLOAT __nv_bfloat16
#define LAMBENT_SMALL_PAIR __nv_bfloat162
#define LAMBENT_SMALL_FORMAT lambent::host::BrainFormat
#include "lambent/host/small_float_operations.inc"
#undef LAMBENT_SMALL_FLOAT
#undef LAMBENT_SMALL_PAIR
#undef LAMBENT_SMALL_FORMAT
