// Floating-point numbers of two bytes: the bits, and the rounding from wider ones. The types that
// kernels see are made of it in cuda_fp16.h and cuda_bf16.h. Pure; used by those.
#pragma once

#include <math.h>

#include <bit>
#include <cstdint>

#include "lambent/host/atomics.h"
#include "lambent/host/rounding.h"
#include "lambent/host/vectors.h"

namespace lambent::host {

// The format with so many bits of exponent and of fraction.
template <int ExponentBits, int FractionBits>
struct SmallFormat {
  static constexpr int kBias = (1 << (ExponentBits - 1)) - 1;
  static constexpr unsigned kInfinity = ((1u << ExponentBits) - 1) << FractionBits;
  static constexpr unsigned kNone = 0x7fff;

  // The nearest number that is not more (FE_DOWNWARD), not less (FE_UPWARD), not longer
  // (FE_TOWARDZERO), or simply the nearest, ties to even.
  static uint16_t from_double(double value, int mode = FE_TONEAREST) {
    const uint64_t bits = std::bit_cast<uint64_t>(value);
    const unsigned sign = static_cast<unsigned>(bits >> 63) << 15;
    if (value != value) return static_cast<uint16_t>(kNone);
    const double size = fabs(value);
    if (size == 0.0) return static_cast<uint16_t>(sign);
    if (size == INFINITY) return static_cast<uint16_t>(sign | kInfinity);
    int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
    const int least = 1 - kBias;
    if (exponent < least) exponent = least;
    // In units of the last place.
    const double scaled = ldexp(size, FractionBits - exponent);
    double whole = floor(scaled);
    const double rest = scaled - whole;
    const bool negative = sign != 0;
    if (mode == FE_TONEAREST) {
      if (rest > 0.5 || (rest == 0.5 && fmod(whole, 2.0) != 0.0)) whole += 1.0;
    } else if (rest > 0.0 && mode == (negative ? FE_DOWNWARD : FE_UPWARD)) {
      whole += 1.0;
    }
    // A carry out of the fraction goes into the exponent, as it should.
    const double one = static_cast<double>(1u << FractionBits);
    const int stored = whole >= one ? exponent + kBias : 0;
    const int64_t magnitude = whole >= one ? (static_cast<int64_t>(stored) << FractionBits) +
                                                 static_cast<int64_t>(whole - one)
                                           : static_cast<int64_t>(whole);
    if (magnitude >= static_cast<int64_t>(kInfinity)) {
      const bool stays = mode == FE_TOWARDZERO || mode == (negative ? FE_UPWARD : FE_DOWNWARD);
      return static_cast<uint16_t>(sign | (stays ? kInfinity - 1 : kInfinity));
    }
    return static_cast<uint16_t>(sign | static_cast<unsigned>(magnitude));
  }

  // Of an integer of any width, rounded once: what a double cannot hold of it is kept as one bit
  // that says that something was left, which rounds as the whole would.
  template <typename Integer>
  static uint16_t from_integer(Integer value, int mode = FE_TONEAREST) {
    const bool negative = value < 0;
    uint64_t size = static_cast<uint64_t>(value);
    if (negative) size = 0 - size;
    const int beyond = std::bit_width(size) - 53;
    if (beyond > 0) {
      const uint64_t left = size & ((uint64_t{1} << beyond) - 1);
      size = ((size >> beyond) | (left != 0 ? 1 : 0)) << beyond;
    }
    const double exact = static_cast<double>(size);
    return from_double(negative ? -exact : exact, mode);
  }

  static float to_float(uint16_t bits) {
    const unsigned sign = static_cast<unsigned>(bits >> 15) << 31;
    const unsigned magnitude = bits & 0x7fff;
    if (magnitude >= kInfinity) {
      const unsigned fraction = (magnitude - kInfinity) << (23 - FractionBits);
      return std::bit_cast<float>(sign | 0x7f800000u | fraction);
    }
    const unsigned exponent = magnitude >> FractionBits;
    const float fraction = static_cast<float>(magnitude & ((1u << FractionBits) - 1));
    const float one = static_cast<float>(1u << FractionBits);
    const float size =
        exponent == 0 ? ldexpf(fraction, 1 - kBias - FractionBits)
                      : ldexpf(one + fraction, static_cast<int>(exponent) - kBias - FractionBits);
    return std::bit_cast<float>(std::bit_cast<unsigned>(size) | sign);
  }
};

// IEEE's half precision; with F16C the processor converts.
struct HalfFormat : SmallFormat<5, 10> {
#if defined(__F16C__) && defined(__clang__)
  static float to_float(uint16_t bits) {
    typedef short Eight __attribute__((vector_size(16)));
    const Eight eight = {static_cast<short>(bits)};
    return __builtin_ia32_vcvtph2ps(eight)[0];
  }
  static uint16_t from_float(float value) {
    if (value != value) return static_cast<uint16_t>(kNone);
    typedef float Four __attribute__((vector_size(16)));
    const Four four = {value};
    return static_cast<uint16_t>(__builtin_ia32_vcvtps2ph(four, 0)[0]);
  }
#else
  static uint16_t from_float(float value) { return from_double(value); }
#endif
};

// The upper half of single precision.
struct BrainFormat : SmallFormat<8, 7> {
  static float to_float(uint16_t bits) { return std::bit_cast<float>(unsigned{bits} << 16); }
  static uint16_t from_float(float value) {
    const unsigned bits = std::bit_cast<unsigned>(value);
    if (value != value) return static_cast<uint16_t>(kNone);
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
};

}  // namespace lambent::host
