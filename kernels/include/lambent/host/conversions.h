// CUDA's conversions between numbers with a stated rounding, and its casts between bits. Pure; used
// by kernels.
#pragma once

#include <math.h>

#include <bit>
#include <cstdint>
#include <limits>

#include "lambent/host/rounding.h"

inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline int __double2hiint(double x) { return static_cast<int>(std::bit_cast<int64_t>(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(std::bit_cast<int64_t>(x)); }
inline double __hiloint2double(int high, int low) {
  return std::bit_cast<double>(uint64_t{static_cast<unsigned>(high)} << 32 |
                               static_cast<unsigned>(low));
}

namespace lambent::host {

// An integer that is not to be had becomes the nearest. What is no number becomes zero, but where a
// double or an integer of 64 bits takes part: there the highest bit.
template <typename Integer, typename Float>
inline Integer to_integer(Float whole) {
  using Limits = std::numeric_limits<Integer>;
  if (whole != whole) {
    constexpr int kHighest = 8 * sizeof(Integer) - 1;
    constexpr bool kWide = sizeof(Integer) == 8 || sizeof(Float) == 8;
    return static_cast<Integer>(kWide ? uint64_t{1} << kHighest : 0);
  }
  if (whole >= Float{2} * static_cast<Float>(Limits::max() / 2 + 1)) return Limits::max();
  if (whole <= static_cast<Float>(Limits::min())) return Limits::min();
  return static_cast<Integer>(whole);
}

}  // namespace lambent::host

#define LAMBENT_TO_INTEGER(from, to, name)                                            \
  inline to __##name##_rn(from x) { return lambent::host::to_integer<to>(rint(x)); }  \
  inline to __##name##_rz(from x) { return lambent::host::to_integer<to>(trunc(x)); } \
  inline to __##name##_ru(from x) { return lambent::host::to_integer<to>(ceil(x)); }  \
  inline to __##name##_rd(from x) { return lambent::host::to_integer<to>(floor(x)); }
LAMBENT_TO_INTEGER(float, int, float2int)
LAMBENT_TO_INTEGER(float, unsigned, float2uint)
LAMBENT_TO_INTEGER(float, long long, float2ll)
LAMBENT_TO_INTEGER(float, unsigned long long, float2ull)
LAMBENT_TO_INTEGER(double, int, double2int)
LAMBENT_TO_INTEGER(double, unsigned, double2uint)
LAMBENT_TO_INTEGER(double, long long, double2ll)
LAMBENT_TO_INTEGER(double, unsigned long long, double2ull)
#undef LAMBENT_TO_INTEGER

#define LAMBENT_FROM(from, to, name)                                                       \
  inline to __##name##_rn(from x) { return static_cast<to>(x); }                           \
  inline to __##name##_rz(from x) { return lambent::host::convert<to>(FE_TOWARDZERO, x); } \
  inline to __##name##_ru(from x) { return lambent::host::convert<to>(FE_UPWARD, x); }     \
  inline to __##name##_rd(from x) { return lambent::host::convert<to>(FE_DOWNWARD, x); }
LAMBENT_FROM(int, float, int2float)
LAMBENT_FROM(unsigned, float, uint2float)
LAMBENT_FROM(long long, float, ll2float)
LAMBENT_FROM(unsigned long long, float, ull2float)
LAMBENT_FROM(long long, double, ll2double)
LAMBENT_FROM(unsigned long long, double, ull2double)
LAMBENT_FROM(double, float, double2float)
#undef LAMBENT_FROM
inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned x) { return x; }
