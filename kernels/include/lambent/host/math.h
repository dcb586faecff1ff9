// CUDA's mathematical functions that the C library does not have, and its casts between bits.
// Used by kernels.
#pragma once

#include <math.h>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline float sinpif(float x) { return static_cast<float>(sin(x * 3.14159265358979323846)); }
inline float cospif(float x) { return static_cast<float>(cos(x * 3.14159265358979323846)); }
inline void sincospif(float x, float* sine, float* cosine) {
  *sine = sinpif(x);
  *cosine = cospif(x);
}

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline int __mul24(int a, int b) { return a * b; }
inline unsigned __umul24(unsigned a, unsigned b) { return a * b; }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<uint64_t>(a) * b) >> 32);
}
inline unsigned __brev(unsigned x) {
  unsigned result = 0;
  for (int bit = 0; bit < 32; ++bit) result |= ((x >> bit) & 1u) << (31 - bit);
  return result;
}

inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline int __float2int_rn(float x) { return static_cast<int>(nearbyintf(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }

// The overloads of CUDA, as functions rather than templates: indices convert to unsigned.
#define LAMBENT_MIN_MAX(result, left, right)                                         \
  constexpr result min(left a, right b) {                                            \
    return static_cast<result>(a) < static_cast<result>(b) ? static_cast<result>(a)  \
                                                           : static_cast<result>(b); \
  }                                                                                  \
  constexpr result max(left a, right b) {                                            \
    return static_cast<result>(a) > static_cast<result>(b) ? static_cast<result>(a)  \
                                                           : static_cast<result>(b); \
  }
LAMBENT_MIN_MAX(int, int, int)
LAMBENT_MIN_MAX(unsigned, unsigned, unsigned)
LAMBENT_MIN_MAX(unsigned, int, unsigned)
LAMBENT_MIN_MAX(unsigned, unsigned, int)
LAMBENT_MIN_MAX(long, long, long)
LAMBENT_MIN_MAX(unsigned long, unsigned long, unsigned long)
LAMBENT_MIN_MAX(long long, long long, long long)
LAMBENT_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
LAMBENT_MIN_MAX(float, float, float)
LAMBENT_MIN_MAX(double, double, double)
LAMBENT_MIN_MAX(double, float, double)
LAMBENT_MIN_MAX(double, double, float)
#undef LAMBENT_MIN_MAX
