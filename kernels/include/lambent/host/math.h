// CUDA's mathematical functions that the C library does not have. Single precision is computed in
// double where that is what makes it right. Pure; used by kernels.
#pragma once

#include <math.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace lambent::host {

constexpr double kPi = 3.14159265358979323846;

// Exact at multiples of a half. The sign is taken off first: a turn added to a small number would
// swallow it.
inline double sine_of_pi(double x) {
  if (x < 0.0) return -sine_of_pi(-x);
  const double turn = x - 2.0 * floor(x / 2.0);  // in [0, 2)
  if (turn == 0.0 || turn == 1.0) return 0.0 * x;
  if (turn <= 0.5) return sin(kPi * turn);
  if (turn <= 1.5) return sin(kPi * (1.0 - turn));
  return sin(kPi * (turn - 2.0));
}
inline double cosine_of_pi(double x) {
  const double turn = fabs(x) - 2.0 * floor(fabs(x) / 2.0);
  if (turn < 0.25 || turn > 1.75) return cos(kPi * turn);
  if (turn <= 0.75) return sin(kPi * (0.5 - turn));
  if (turn < 1.25) return -cos(kPi * (1.0 - turn));
  return sin(kPi * (turn - 1.5));
}

// The inverse of erfc: a first guess from the tail's logarithm, then Newton's method.
inline double inverse_erfc(double y) {
  if (!(y >= 0.0) || y > 2.0) return NAN;
  if (y == 0.0) return INFINITY;
  if (y == 2.0) return -INFINITY;
  const bool mirrored = y > 1.0;
  const double p = mirrored ? 2.0 - y : y;
  const double t = sqrt(-2.0 * log(p / 2.0));
  double x = 0.70710678118654752 *
             (t - (2.515517 + 0.802853 * t + 0.010328 * t * t) /
                      (1.0 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t * t * t));
  for (int i = 0; i < 4; ++i) {
    const double error = erfc(x) - p;
    const double slope = -1.12837916709551257390 * exp(-x * x);
    if (slope == 0.0) break;
    const double step = error / slope;
    x -= step / (1.0 + x * step);
  }
  return mirrored ? -x : x;
}
inline double inverse_erf(double y) {
  if (!(fabs(y) <= 1.0)) return NAN;
  if (fabs(y) == 1.0) return copysign(INFINITY, y);
  if (fabs(y) > 0.5) return copysign(inverse_erfc(1.0 - fabs(y)), y);
  double x = y * 0.88622692545275801365;
  for (int i = 0; i < 5; ++i) {
    const double step = (erf(x) - y) / (1.12837916709551257390 * exp(-x * x));
    x -= step / (1.0 + x * step);
  }
  return x;
}
inline double scaled_erfc(double x) {
  if (x < -27.0) return INFINITY;
  if (x < 25.0) {
    // What the square lost by its rounding counts many times in the power.
    const double square = x * x;
    return exp(square) * (1.0 + fma(x, x, -square)) * erfc(x);
  }
  const double s = 1.0 / (2.0 * x * x);
  return 0.56418958354775628695 / x *
         (1.0 -
          s * (1.0 -
               3.0 * s * (1.0 - 5.0 * s * (1.0 - 7.0 * s * (1.0 - 9.0 * s * (1.0 - 11.0 * s))))));
}

// Beyond what a double holds the library throws.
inline double bessel_i(double order, double x) {
  return x > 720.0 ? INFINITY : std::cyl_bessel_i(order, x);
}

}  // namespace lambent::host

// Each in both precisions.
#define LAMBENT_MATH_ONE(name, expression)            \
  inline double name(double x) { return expression; } \
  inline float name##f(float single) {                \
    const double x = single;                          \
    return static_cast<float>(expression);            \
  }
LAMBENT_MATH_ONE(rcbrt, 1.0 / cbrt(x))
LAMBENT_MATH_ONE(sinpi, lambent::host::sine_of_pi(x))
LAMBENT_MATH_ONE(cospi, lambent::host::cosine_of_pi(x))
LAMBENT_MATH_ONE(erfinv, lambent::host::inverse_erf(x))
LAMBENT_MATH_ONE(erfcinv, lambent::host::inverse_erfc(x))
LAMBENT_MATH_ONE(erfcx, lambent::host::scaled_erfc(x))
LAMBENT_MATH_ONE(normcdf, 0.5 * erfc(x * -0.70710678118654752440))
LAMBENT_MATH_ONE(normcdfinv, -1.41421356237309504880 * lambent::host::inverse_erfc(2.0 * x))
LAMBENT_MATH_ONE(cyl_bessel_i0, lambent::host::bessel_i(0.0, fabs(x)))
LAMBENT_MATH_ONE(cyl_bessel_i1, copysign(lambent::host::bessel_i(1.0, fabs(x)), x))
#undef LAMBENT_MATH_ONE

template <typename = void>
inline float rsqrtf(float x) {
  return 1.0f / sqrtf(x);
}
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline void sincospif(float x, float* sine, float* cosine) {
  *sine = sinpif(x);
  *cosine = cospif(x);
}
inline void sincospi(double x, double* sine, double* cosine) {
  *sine = sinpi(x);
  *cosine = cospi(x);
}
inline double rhypot(double x, double y) { return 1.0 / hypot(x, y); }
inline float rhypotf(float x, float y) { return static_cast<float>(rhypot(x, y)); }
inline double norm3d(double x, double y, double z) { return hypot(hypot(x, y), z); }
inline float norm3df(float x, float y, float z) { return static_cast<float>(norm3d(x, y, z)); }
inline double norm4d(double x, double y, double z, double w) {
  return hypot(hypot(x, y), hypot(z, w));
}
inline float norm4df(float x, float y, float z, float w) {
  return static_cast<float>(norm4d(x, y, z, w));
}
inline double rnorm3d(double x, double y, double z) { return 1.0 / norm3d(x, y, z); }
inline float rnorm3df(float x, float y, float z) { return static_cast<float>(rnorm3d(x, y, z)); }
inline double rnorm4d(double x, double y, double z, double w) { return 1.0 / norm4d(x, y, z, w); }
inline float rnorm4df(float x, float y, float z, float w) {
  return static_cast<float>(rnorm4d(x, y, z, w));
}

// The fast ones are no less exact here than the others.
inline float __fdividef(float a, float b) { return a / b; }
inline float fdividef(float a, float b) { return a / b; }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline void __sincosf(float x, float* sine, float* cosine) { sincosf(x, sine, cosine); }
inline float __tanf(float x) { return tanf(x); }
inline float __tanhf(float x) { return tanhf(x); }
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return exp10f(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

inline unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned umax(unsigned a, unsigned b) { return a > b ? a : b; }
inline long long llmin(long long a, long long b) { return a < b ? a : b; }
inline long long llmax(long long a, long long b) { return a > b ? a : b; }
inline unsigned long long ullmin(unsigned long long a, unsigned long long b) {
  return a < b ? a : b;
}
inline unsigned long long ullmax(unsigned long long a, unsigned long long b) {
  return a > b ? a : b;
}

// The overloads of CUDA, whose parameters are no template's: indices convert to unsigned. They are
// templates all the same, so that a program may define the same function for its host code.
#define LAMBENT_MIN_MAX(result, left, right)                                         \
  template <typename = void>                                                         \
  constexpr result min(left a, right b) {                                            \
    return static_cast<result>(a) < static_cast<result>(b) ? static_cast<result>(a)  \
                                                           : static_cast<result>(b); \
  }                                                                                  \
  template <typename = void>                                                         \
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
#undef LAMBENT_MIN_MAX
// Of a number and what is none, the number.
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(float a, double b) { return fmin(a, b); }
inline double max(float a, double b) { return fmax(a, b); }
inline double min(double a, float b) { return fmin(a, b); }
inline double max(double a, float b) { return fmax(a, b); }
