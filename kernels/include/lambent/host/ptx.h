// The instructions of inline PTX that lambent-bundle makes calls of (gpu/bundle/inline_ptx.cc),
// each under its name with its type as the argument. Used by kernels.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lambent/host/atomics.h"
#include "lambent/host/clock.h"
#include "lambent/host/conversions.h"
#include "lambent/host/integers.h"
#include "lambent/host/math.h"
#include "lambent/host/warps.h"

namespace lambent::host::ptx {

// A register's bits as another type; a number of another width as C++ converts it.
template <typename To, typename From>
inline To bits(From from) {
  if constexpr (std::is_pointer_v<From>) {
    return bits<To>(reinterpret_cast<uint64_t>(from));
  } else if constexpr (std::is_enum_v<From> || std::is_same_v<From, bool>) {
    return static_cast<To>(from);
  } else if constexpr (sizeof(To) == sizeof(From) && std::is_trivially_copyable_v<From>) {
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
  } else {
    return static_cast<To>(from);
  }
}

template <typename To, typename From>
inline void give(To& to, From from) {
  if constexpr (std::is_pointer_v<To>) {
    to = reinterpret_cast<To>(bits<uint64_t>(from));
  } else {
    to = bits<To>(from);
  }
}

inline unsigned laneid() { return lane(); }
inline unsigned warpid() { return linear(threadIdx) / kWarp; }
inline unsigned smid() { return 0; }
inline unsigned nsmid() { return 1; }
inline unsigned lanemask_eq() { return 1u << lane(); }
inline unsigned lanemask_lt() { return (1u << lane()) - 1; }
inline unsigned lanemask_le() { return lanemask_lt() | lanemask_eq(); }
inline unsigned lanemask_gt() { return ~lanemask_le(); }
inline unsigned lanemask_ge() { return ~lanemask_lt(); }
inline unsigned clock() { return static_cast<unsigned>(::clock64()); }
inline uint64_t clock64() { return static_cast<uint64_t>(::clock64()); }
inline uint64_t globaltimer() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}
#define LAMBENT_PTX_INDEX(name, variable)           \
  inline unsigned name##_x() { return variable.x; } \
  inline unsigned name##_y() { return variable.y; } \
  inline unsigned name##_z() { return variable.z; }
LAMBENT_PTX_INDEX(tid, threadIdx)
LAMBENT_PTX_INDEX(ntid, blockDim)
LAMBENT_PTX_INDEX(ctaid, blockIdx)
LAMBENT_PTX_INDEX(nctaid, gridDim)
#undef LAMBENT_PTX_INDEX
inline unsigned dynamic_smem_size() { return block.launch->dynamic_shared_bytes; }

template <typename T>
inline T load(uint64_t address, size_t index) {
  T value;
  __atomic_load(reinterpret_cast<T*>(address) + index, &value, __ATOMIC_SEQ_CST);
  return value;
}
template <typename T>
inline void store(uint64_t address, size_t index, T value) {
  __atomic_store(reinterpret_cast<T*>(address) + index, &value, __ATOMIC_SEQ_CST);
}

// Twice the width.
template <typename T>
using Wide = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

template <typename T>
inline T high(T a, T b) {
  return static_cast<T>((static_cast<Wide<T>>(a) * b) >> (8 * sizeof(T)));
}
template <typename T>
inline T low(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// Sums of integers wrap.
template <typename T>
inline T plus(T a, T b) {
  if constexpr (!std::is_integral_v<T>) {
    return a + b;
  } else {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(
        static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
  }
}
template <typename T>
inline T minus(T a, T b) {
  if constexpr (!std::is_integral_v<T>) {
    return a - b;
  } else {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(
        static_cast<Unsigned>(static_cast<Unsigned>(a) - static_cast<Unsigned>(b)));
  }
}

// What is no number is neither the least nor the greatest, and -0 is less than +0.
template <typename T>
inline bool is_number(T a) {
  if constexpr (!std::is_integral_v<T>) return a == a;
  return true;
}
template <typename T>
inline bool is_negative(T a) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::signbit(a);
  } else if constexpr (std::is_class_v<T> && sizeof(T) == 2) {
    return bits<uint16_t>(a) >> 15 != 0;  // a small float
  } else {
    return a < T{};
  }
}
template <typename T>
inline bool is_less(T a, T b) {
  return a < b || (a == b && is_negative(a) && !is_negative(b));
}
template <typename T>
inline T negated(T a) {
  if constexpr (!std::is_integral_v<T>) {
    return -a;
  } else {
    return minus(T{}, a);
  }
}
template <typename T>
inline T multiplied_and_added(T a, T b, T c) {
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(std::fma(a, b, c));
  if constexpr (!std::is_floating_point_v<T> && sizeof(T) == 2) return __hfma(a, b, c);
  if constexpr (!std::is_floating_point_v<T> && sizeof(T) == 4) return __hfma2(a, b, c);
}

// The carry of the thread that runs: no other comes between its instructions.
inline thread_local unsigned carry;

template <typename T>
inline T plus_carry(T a, T b, unsigned in, bool out) {
  using Unsigned = std::make_unsigned_t<T>;
  using Twice = Wide<Unsigned>;
  const Twice sum = static_cast<Twice>(static_cast<Unsigned>(a)) + static_cast<Unsigned>(b) + in;
  if (out) carry = static_cast<unsigned>(sum >> (8 * sizeof(T))) & 1;
  return static_cast<T>(static_cast<Unsigned>(sum));
}
template <typename T>
inline T minus_borrow(T a, T b, unsigned in, bool out) {
  using Unsigned = std::make_unsigned_t<T>;
  using Twice = Wide<Unsigned>;
  const Twice difference =
      static_cast<Twice>(static_cast<Unsigned>(a)) - static_cast<Unsigned>(b) - in;
  if (out) carry = static_cast<unsigned>(difference >> (8 * sizeof(T))) & 1;
  return static_cast<T>(static_cast<Unsigned>(difference));
}

#define LAMBENT_PTX(name, parameters, expression)            \
  template <typename T, LAMBENT_PTX_TYPES_##parameters>      \
  inline auto name##_(LAMBENT_PTX_PARAMETERS_##parameters) { \
    LAMBENT_PTX_LOCALS_##parameters return expression;       \
  }
#define LAMBENT_PTX_TYPES_1 typename A
#define LAMBENT_PTX_TYPES_2 LAMBENT_PTX_TYPES_1, typename B
#define LAMBENT_PTX_TYPES_3 LAMBENT_PTX_TYPES_2, typename C
#define LAMBENT_PTX_PARAMETERS_1 A a_
#define LAMBENT_PTX_PARAMETERS_2 LAMBENT_PTX_PARAMETERS_1, B b_
#define LAMBENT_PTX_PARAMETERS_3 LAMBENT_PTX_PARAMETERS_2, C c_
#define LAMBENT_PTX_LOCALS_1 const T a = bits<T>(a_);
#define LAMBENT_PTX_LOCALS_2 LAMBENT_PTX_LOCALS_1 const T b = bits<T>(b_);
#define LAMBENT_PTX_LOCALS_3 LAMBENT_PTX_LOCALS_2 const T c = bits<T>(c_);

LAMBENT_PTX(mov, 1, a)
LAMBENT_PTX(cvta, 1, a)
LAMBENT_PTX(not, 1, static_cast<T>(std::is_same_v<T, bool> ? !a : ~a))
LAMBENT_PTX(neg, 1, negated(a))
LAMBENT_PTX(abs, 1, is_negative(a) ? negated(a) : a)
LAMBENT_PTX(popc, 1, static_cast<unsigned>(__builtin_popcountll(static_cast<uint64_t>(a))))
LAMBENT_PTX(clz, 1,
            static_cast<unsigned>(sizeof(T) == 8 ? __clzll(static_cast<int64_t>(a))
                                                 : __clz(static_cast<int>(a))))
LAMBENT_PTX(brev, 1,
            static_cast<T>(sizeof(T) == 8 ? __brevll(a) : __brev(static_cast<unsigned>(a))))
// The highest bit that is not the sign; all ones where there is none.
template <typename T, typename A>
inline uint32_t bfind_(A a_) {
  T a = bits<T>(a_);
  if (a < T{}) a = static_cast<T>(~a);
  if (a == T{}) return ~0u;
  return 63u - static_cast<uint32_t>(__builtin_clzll(static_cast<uint64_t>(a)));
}
template <typename T, typename A>
inline uint32_t bfind_shiftamt_(A a) {
  const uint32_t at = bfind_<T>(a);
  return at == ~0u ? at : static_cast<uint32_t>(8 * sizeof(T)) - 1 - at;
}
LAMBENT_PTX(ex2, 1, static_cast<T>(exp2(a)))
LAMBENT_PTX(lg2, 1, static_cast<T>(log2(a)))
LAMBENT_PTX(rcp, 1, T{1} / a)
LAMBENT_PTX(rsqrt, 1, static_cast<T>(1 / sqrt(a)))
LAMBENT_PTX(sqrt, 1, static_cast<T>(sqrt(a)))
LAMBENT_PTX(sin, 1, static_cast<T>(sin(a)))
LAMBENT_PTX(cos, 1, static_cast<T>(cos(a)))
LAMBENT_PTX(tanh, 1, static_cast<T>(tanh(a)))
LAMBENT_PTX(add, 2, plus(a, b))
LAMBENT_PTX(sub, 2, minus(a, b))
LAMBENT_PTX(mul, 2, static_cast<T>(a* b))
LAMBENT_PTX(mul_lo, 2, low(a, b))
LAMBENT_PTX(mul_hi, 2, high(a, b))
LAMBENT_PTX(mul_wide, 2, static_cast<Wide<T>>(a) * b)
LAMBENT_PTX(div, 2, static_cast<T>(a / b))
LAMBENT_PTX(rem, 2, static_cast<T>(a % b))
LAMBENT_PTX(min, 2, is_number(a) && (!is_number(b) || is_less(a, b)) ? a : b)
LAMBENT_PTX(max, 2, is_number(a) && (!is_number(b) || is_less(b, a)) ? a : b)
LAMBENT_PTX(and, 2, static_cast<T>(a& b))
LAMBENT_PTX(or, 2, static_cast<T>(a | b))
LAMBENT_PTX(xor, 2, static_cast<T>(a ^ b))
LAMBENT_PTX(copysign, 2, static_cast<T>(copysign(b, a)))
LAMBENT_PTX(mul24_lo, 2,
            static_cast<T>(std::is_signed_v<T> ? static_cast<unsigned>(__mul24(static_cast<int>(a),
                                                                               static_cast<int>(b)))
                                               : __umul24(a, b)))
LAMBENT_PTX(cnot, 1, static_cast<T>(a == T{}))
// By the width or more: nothing is left, but the sign.
template <typename T, typename A, typename B>
inline T shl_(A a, B b_) {
  const uint32_t b = bits<uint32_t>(b_);
  using Unsigned = std::make_unsigned_t<T>;
  return b >= 8 * sizeof(T) ? T{} : static_cast<T>(static_cast<Unsigned>(bits<T>(a)) << b);
}
template <typename T, typename A, typename B>
inline T shr_(A a, B b_) {
  constexpr uint32_t kLast = 8 * sizeof(T) - 1;
  const uint32_t b = bits<uint32_t>(b_);
  if (b > kLast && std::is_unsigned_v<T>) return T{};
  return static_cast<T>(bits<T>(a) >> (b > kLast ? kLast : b));
}
LAMBENT_PTX(add_cc, 2, plus_carry(a, b, 0, true))
LAMBENT_PTX(addc, 2, plus_carry(a, b, carry, false))
LAMBENT_PTX(addc_cc, 2, plus_carry(a, b, carry, true))
LAMBENT_PTX(sub_cc, 2, minus_borrow(a, b, 0, true))
LAMBENT_PTX(subc, 2, minus_borrow(a, b, carry, false))
LAMBENT_PTX(subc_cc, 2, minus_borrow(a, b, carry, true))
LAMBENT_PTX(fma, 3, multiplied_and_added(a, b, c))
LAMBENT_PTX(mad_lo, 3, plus(low(a, b), c))
LAMBENT_PTX(mad_hi, 3, plus(high(a, b), c))
template <typename T, typename A, typename B, typename C>
inline Wide<T> mad_wide_(A a, B b, C c) {
  return plus(static_cast<Wide<T>>(static_cast<Wide<T>>(bits<T>(a)) * bits<T>(b)),
              bits<Wide<T>>(c));
}
LAMBENT_PTX(mad_lo_cc, 3, plus_carry(low(a, b), c, 0, true))
LAMBENT_PTX(mad_hi_cc, 3, plus_carry(high(a, b), c, 0, true))
LAMBENT_PTX(madc_lo, 3, plus_carry(low(a, b), c, carry, false))
LAMBENT_PTX(madc_hi, 3, plus_carry(high(a, b), c, carry, false))
LAMBENT_PTX(madc_lo_cc, 3, plus_carry(low(a, b), c, carry, true))
LAMBENT_PTX(madc_hi_cc, 3, plus_carry(high(a, b), c, carry, true))
LAMBENT_PTX(sad, 3, plus(c, a < b ? minus(b, a) : minus(a, b)))
LAMBENT_PTX(prmt, 3, permute(a, b, c))
LAMBENT_PTX(shf_l_wrap, 3, __funnelshift_l(a, b, c))
LAMBENT_PTX(shf_r_wrap, 3, __funnelshift_r(a, b, c))
LAMBENT_PTX(shf_l_clamp, 3, __funnelshift_lc(a, b, c))
LAMBENT_PTX(shf_r_clamp, 3, __funnelshift_rc(a, b, c))
#undef LAMBENT_PTX

// To an integer, or to a float that is one.
template <typename To, typename From, typename A>
inline To cvt_rzi_(A a_) {
  const From a = bits<From>(a_);
  if constexpr (!std::is_floating_point_v<From>) {
    return static_cast<To>(a);
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(std::trunc(a));
  } else {
    return to_integer<To>(std::trunc(a));
  }
}
template <typename To, typename From, typename A>
inline To cvt_(A a) {
  return static_cast<To>(bits<From>(a));
}

// Comparisons: without a u behind them false, with it true, if one is no number.
#define LAMBENT_PTX_SETP(name, expression)      \
  template <typename T, typename A, typename B> \
  inline bool setp_##name##_(A a_, B b_) {      \
    const T a = bits<T>(a_), b = bits<T>(b_);   \
    return expression;                          \
  }
LAMBENT_PTX_SETP(eq, a == b)
LAMBENT_PTX_SETP(ne, a<b || a> b)
LAMBENT_PTX_SETP(lt, a < b)
LAMBENT_PTX_SETP(le, a <= b)
LAMBENT_PTX_SETP(gt, a > b)
LAMBENT_PTX_SETP(ge, a >= b)
LAMBENT_PTX_SETP(lo, a < b)
LAMBENT_PTX_SETP(ls, a <= b)
LAMBENT_PTX_SETP(hi, a > b)
LAMBENT_PTX_SETP(hs, a >= b)
LAMBENT_PTX_SETP(equ, !(a < b || a > b))
LAMBENT_PTX_SETP(neu, a != b)
LAMBENT_PTX_SETP(ltu, !(a >= b))
LAMBENT_PTX_SETP(leu, !(a > b))
LAMBENT_PTX_SETP(gtu, !(a <= b))
LAMBENT_PTX_SETP(geu, !(a < b))
LAMBENT_PTX_SETP(num, is_number(a) && is_number(b))
LAMBENT_PTX_SETP(nan, !is_number(a) || !is_number(b))
#undef LAMBENT_PTX_SETP

template <typename T, typename A, typename B>
inline T selp_(A a, B b, bool first) {
  return first ? bits<T>(a) : bits<T>(b);
}
// So many ones from a bit on.
template <typename T, typename A, typename B>
inline uint32_t bmsk_clamp_(A from_, B count_) {
  const uint32_t from = bits<uint32_t>(from_), count = bits<uint32_t>(count_);
  const uint32_t ones = count >= 32 ? ~0u : (1u << count) - 1;
  return from >= 32 ? 0 : ones << from;
}
template <typename T, typename A, typename B>
inline uint32_t bmsk_wrap_(A from, B count) {
  return bmsk_clamp_<T>(bits<uint32_t>(from) & 31, bits<uint32_t>(count) & 31);
}
// The bytes of a are of T's kind, those of b of U's.
template <typename T, typename U = T, typename A, typename B, typename C>
inline T dp4a_(A a_, B b_, C c) {
  using OfA = std::conditional_t<std::is_signed_v<T>, int8_t, uint8_t>;
  using OfB = std::conditional_t<std::is_signed_v<U>, int8_t, uint8_t>;
  const uint32_t a = bits<uint32_t>(a_), b = bits<uint32_t>(b_);
  T sum = bits<T>(c);
  for (int at = 0; at < 32; at += 8) {
    sum = plus(sum, static_cast<T>(static_cast<OfA>(a >> at) * static_cast<OfB>(b >> at)));
  }
  return sum;
}
template <typename T, typename A, typename B, typename C>
inline T bfe_(A a_, B from_, C count_) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  const T a = bits<T>(a_);
  const uint32_t from = bits<uint32_t>(from_) & 255, count = bits<uint32_t>(count_) & 255;
  if (count == 0) return T{};
  // Behind the highest bit the sign goes on, which shr_ sees to.
  const T field = shr_<T>(a, from);
  if (count >= kBits) return field;
  const T mask = static_cast<T>((std::make_unsigned_t<T>{1} << count) - 1);
  const uint32_t sign = from + count - 1 < kBits ? from + count - 1 : kBits - 1;
  const bool negative = std::is_signed_v<T> && (shr_<std::make_unsigned_t<T>>(a, sign) & 1);
  return static_cast<T>((field & mask) | (negative ? static_cast<T>(~mask) : T{}));
}
template <typename T, typename A, typename B, typename C, typename D>
inline T bfi_(A a, B b, C from_, D count_) {
  const uint32_t from = bits<uint32_t>(from_) & 255, count = bits<uint32_t>(count_) & 255;
  const T ones =
      count >= 8 * sizeof(T) ? static_cast<T>(~T{}) : static_cast<T>((T{1} << count) - 1);
  const T mask = shl_<T>(ones, from);
  return static_cast<T>((bits<T>(b) & ~mask) | (shl_<T>(bits<T>(a), from) & mask));
}
template <typename T, typename A, typename B, typename C>
inline T lop3_(A a_, B b_, C c_, unsigned table) {
  const T a = bits<T>(a_), b = bits<T>(b_), c = bits<T>(c_);
  T result{};
  for (unsigned row = 0; row < 8; ++row) {
    if ((table >> row & 1) == 0) continue;
    result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
  }
  return result;
}

}  // namespace lambent::host::ptx
