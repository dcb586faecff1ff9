// Integers within a word: __vadd4 and its kin on two halves or four bytes, and the minima and
// maxima of several numbers. Pure; used by kernels.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace lambent::host {

// What `operation` makes of each part of two words, cut to the part's width.
template <typename Part, typename Operation>
constexpr unsigned in_parts(unsigned a, unsigned b, Operation operation) {
  constexpr unsigned kBits = 8 * sizeof(Part);
  unsigned result = 0;
  for (unsigned shift = 0; shift < 32; shift += kBits) {
    const int left = static_cast<Part>(a >> shift), right = static_cast<Part>(b >> shift);
    const auto part = static_cast<std::make_unsigned_t<Part>>(operation(left, right));
    result |= static_cast<unsigned>(part) << shift;
  }
  return result;
}

template <typename Part>
constexpr int saturate_to(int value) {
  constexpr int kLeast = std::numeric_limits<Part>::min(), kMost = std::numeric_limits<Part>::max();
  return value < kLeast ? kLeast : value > kMost ? kMost : value;
}

// The sum of what `operation` makes of the parts.
template <typename Part, typename Operation>
constexpr unsigned sum_of_parts(unsigned a, unsigned b, Operation operation) {
  unsigned sum = 0;
  for (unsigned shift = 0; shift < 32; shift += 8 * sizeof(Part)) {
    sum += static_cast<unsigned>(
        operation(static_cast<Part>(a >> shift), static_cast<Part>(b >> shift)));
  }
  return sum;
}

constexpr int distance(int a, int b) { return a < b ? b - a : a - b; }

}  // namespace lambent::host

#define LAMBENT_PARTS(name, type, expression)                                             \
  constexpr unsigned name(unsigned left, unsigned right) {                                \
    return lambent::host::in_parts<type>(left, right,                                     \
                                         [](int a, int b) -> int { return expression; }); \
  }
#define LAMBENT_PARTS_ONE(name, type, expression)                                       \
  constexpr unsigned name(unsigned word) {                                              \
    return lambent::host::in_parts<type>(word, word,                                    \
                                         [](int a, int) -> int { return expression; }); \
  }
// In both widths.
#define LAMBENT_SIGNED(name, suffix, expression)      \
  LAMBENT_PARTS(name##suffix##2, int16_t, expression) \
  LAMBENT_PARTS(name##suffix##4, int8_t, expression)
#define LAMBENT_UNSIGNED(name, suffix, expression)     \
  LAMBENT_PARTS(name##suffix##2, uint16_t, expression) \
  LAMBENT_PARTS(name##suffix##4, uint8_t, expression)

LAMBENT_SIGNED(__vadd, , a + b)
LAMBENT_SIGNED(__vsub, , a - b)
LAMBENT_PARTS(__vaddss2, int16_t, lambent::host::saturate_to<int16_t>(a + b))
LAMBENT_PARTS(__vaddss4, int8_t, lambent::host::saturate_to<int8_t>(a + b))
LAMBENT_PARTS(__vaddus2, uint16_t, lambent::host::saturate_to<uint16_t>(a + b))
LAMBENT_PARTS(__vaddus4, uint8_t, lambent::host::saturate_to<uint8_t>(a + b))
LAMBENT_PARTS(__vsubss2, int16_t, lambent::host::saturate_to<int16_t>(a - b))
LAMBENT_PARTS(__vsubss4, int8_t, lambent::host::saturate_to<int8_t>(a - b))
LAMBENT_PARTS(__vsubus2, uint16_t, lambent::host::saturate_to<uint16_t>(a - b))
LAMBENT_PARTS(__vsubus4, uint8_t, lambent::host::saturate_to<uint8_t>(a - b))
LAMBENT_SIGNED(__vabsdiff, s, lambent::host::distance(a, b))
LAMBENT_UNSIGNED(__vabsdiff, u, lambent::host::distance(a, b))
// A half is rounded away from zero.
LAMBENT_SIGNED(__vavg, s, (a + b + (a + b >= 0 ? 1 : -1)) / 2)
LAMBENT_UNSIGNED(__vavg, u, (a + b + 1) / 2)
LAMBENT_UNSIGNED(__vhadd, u, (a + b) / 2)
LAMBENT_SIGNED(__vmax, s, a < b ? b : a)
LAMBENT_UNSIGNED(__vmax, u, a < b ? b : a)
LAMBENT_SIGNED(__vmin, s, b < a ? b : a)
LAMBENT_UNSIGNED(__vmin, u, b < a ? b : a)
// All bits of a part, or its lowest.
#define LAMBENT_COMPARISON(kind, suffix, name, sign)      \
  LAMBENT_##kind(__vcmp##name, suffix, a sign b ? -1 : 0) \
      LAMBENT_##kind(__vset##name, suffix, a sign b ? 1 : 0)
LAMBENT_COMPARISON(UNSIGNED, , eq, ==)
LAMBENT_COMPARISON(UNSIGNED, , ne, !=)
LAMBENT_COMPARISON(SIGNED, s, ge, >=)
LAMBENT_COMPARISON(UNSIGNED, u, ge, >=)
LAMBENT_COMPARISON(SIGNED, s, gt, >)
LAMBENT_COMPARISON(UNSIGNED, u, gt, >)
LAMBENT_COMPARISON(SIGNED, s, le, <=)
LAMBENT_COMPARISON(UNSIGNED, u, le, <=)
LAMBENT_COMPARISON(SIGNED, s, lt, <)
LAMBENT_COMPARISON(UNSIGNED, u, lt, <)
#undef LAMBENT_COMPARISON
#undef LAMBENT_SIGNED
#undef LAMBENT_UNSIGNED
#undef LAMBENT_PARTS

LAMBENT_PARTS_ONE(__vabs2, int16_t, a < 0 ? -a : a)
LAMBENT_PARTS_ONE(__vabs4, int8_t, a < 0 ? -a : a)
LAMBENT_PARTS_ONE(__vabsss2, int16_t, lambent::host::saturate_to<int16_t>(a < 0 ? -a : a))
LAMBENT_PARTS_ONE(__vabsss4, int8_t, lambent::host::saturate_to<int8_t>(a < 0 ? -a : a))
LAMBENT_PARTS_ONE(__vneg2, int16_t, -a)
LAMBENT_PARTS_ONE(__vneg4, int8_t, -a)
LAMBENT_PARTS_ONE(__vnegss2, int16_t, lambent::host::saturate_to<int16_t>(-a))
LAMBENT_PARTS_ONE(__vnegss4, int8_t, lambent::host::saturate_to<int8_t>(-a))
#undef LAMBENT_PARTS_ONE

constexpr unsigned __vsads2(unsigned a, unsigned b) {
  return lambent::host::sum_of_parts<int16_t>(a, b, lambent::host::distance);
}
constexpr unsigned __vsads4(unsigned a, unsigned b) {
  return lambent::host::sum_of_parts<int8_t>(a, b, lambent::host::distance);
}
constexpr unsigned __vsadu2(unsigned a, unsigned b) {
  return lambent::host::sum_of_parts<uint16_t>(a, b, lambent::host::distance);
}
constexpr unsigned __vsadu4(unsigned a, unsigned b) {
  return lambent::host::sum_of_parts<uint8_t>(a, b, lambent::host::distance);
}

// Of whole words, as dynamic programming needs them.
constexpr int __vimax3_s32(int a, int b, int c) {
  const int most = a < b ? b : a;
  return most < c ? c : most;
}
constexpr int __vimin3_s32(int a, int b, int c) {
  const int least = b < a ? b : a;
  return c < least ? c : least;
}
constexpr unsigned __vimax3_u32(unsigned a, unsigned b, unsigned c) {
  const unsigned most = a < b ? b : a;
  return most < c ? c : most;
}
constexpr unsigned __vimin3_u32(unsigned a, unsigned b, unsigned c) {
  const unsigned least = b < a ? b : a;
  return c < least ? c : least;
}
constexpr int __vimax_s32_relu(int a, int b) { return __vimax3_s32(a, b, 0); }
constexpr int __vimax3_s32_relu(int a, int b, int c) {
  return __vimax3_s32(__vimax3_s32(a, b, c), 0, 0);
}
constexpr int __viaddmax_s32(int a, int b, int c) {
  const int sum = static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
  return sum < c ? c : sum;
}
constexpr int __viaddmin_s32(int a, int b, int c) {
  const int sum = static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
  return c < sum ? c : sum;
}
constexpr int __viaddmax_s32_relu(int a, int b, int c) {
  return __vimax3_s32(__viaddmax_s32(a, b, c), 0, 0);
}
