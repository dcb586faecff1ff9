// What whole modules of PTX need beside the instructions of ptx.h: memory by addresses, shared
// memory by offsets, atomics, what the lanes of a warp do together, functions of CUDA's device
// library. Used by sources that lambent-bundle makes of PTX (gpu/bundle/ptx_source.cc), behind
// kernel.h.
#pragma once

#include <limits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "lambent/host/ptx.h"
#include "lambent/host/ptx_barriers.h"

namespace lambent::host::ptx {

template <typename T>
inline uint64_t address(T* of) {
  return reinterpret_cast<uint64_t>(of);
}

// A parameter of a kernel that is no number.
template <size_t Size, size_t Alignment>
struct alignas(Alignment) Bytes {
  uint8_t bytes[Size];
};

// Addresses of shared memory count from its begin, in 32 bits.
inline uint64_t in_shared(const char* shared, uint64_t offset) {
  return reinterpret_cast<uint64_t>(shared) + static_cast<uint32_t>(offset);
}
inline uint64_t to_shared(const char* shared, uint64_t pointer) {
  return pointer - reinterpret_cast<uint64_t>(shared);
}
inline bool is_shared(const char* shared, size_t bytes, uint64_t pointer) {
  return pointer - reinterpret_cast<uint64_t>(shared) < bytes;
}

// The number of so many bytes.
template <size_t Size>
using Unsigned = std::conditional_t<
    Size == 1, uint8_t,
    std::conditional_t<Size == 2, uint16_t, std::conditional_t<Size == 4, uint32_t, uint64_t>>>;

template <typename T, size_t Count>
struct Parts {
  T part[Count];
};

template <typename T, size_t Count>
inline Parts<T, Count> load_each(uint64_t at) {
  Parts<T, Count> read;
  __builtin_memcpy(&read, reinterpret_cast<const void*>(at), sizeof read);
  return read;
}
template <typename T, size_t Count>
inline void store_each(uint64_t at, Parts<T, Count> written) {
  __builtin_memcpy(reinterpret_cast<void*>(at), &written, sizeof written);
}

// In one piece, as a GPU reads and writes a vector that is aligned: what hands a value and its
// state from block to block relies on it.
typedef long long Sixteen __attribute__((vector_size(16)));

template <typename T, size_t Count>
inline Parts<T, Count> load_whole(uint64_t at) {
  static_assert(sizeof(T) * Count <= 16, "no more is read in one piece");
  Parts<T, Count> read;
  if constexpr (sizeof read == 16) {
    Sixteen whole;
    __asm__ volatile("vmovdqa (%1), %0" : "=x"(whole) : "r"(at) : "memory");
    __builtin_memcpy(&read, &whole, sizeof read);
  } else {
    const auto word =
        __atomic_load_n(reinterpret_cast<Unsigned<sizeof read>*>(at), __ATOMIC_ACQUIRE);
    __builtin_memcpy(&read, &word, sizeof read);
  }
  return read;
}
template <typename T, size_t Count>
inline void store_whole(uint64_t at, Parts<T, Count> written) {
  static_assert(sizeof(T) * Count <= 16, "no more is written in one piece");
  if constexpr (sizeof written == 16) {
    Sixteen whole;
    __builtin_memcpy(&whole, &written, sizeof whole);
    __asm__ volatile("vmovdqa %0, (%1)" ::"x"(whole), "r"(at) : "memory");
  } else {
    Unsigned<sizeof written> word;
    __builtin_memcpy(&word, &written, sizeof word);
    __atomic_store_n(reinterpret_cast<Unsigned<sizeof written>*>(at), word, __ATOMIC_RELEASE);
  }
}

// Words made of parts and taken apart.
template <size_t Count, size_t Part, typename T>
inline auto part(T whole) {
  constexpr size_t kBytes = sizeof(T) / Count;
  using Each = Unsigned<kBytes>;
  return static_cast<Each>(bits<Unsigned<sizeof(T)>>(whole) >> (8 * kBytes * Part));
}
template <typename T, size_t Count, typename... Each>
inline T whole(Each... parts) {
  constexpr size_t kBits = 8 * sizeof(T) / Count;
  constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;
  uint64_t word = 0;
  size_t at = 0;
  ((word |= (to_word(parts) & kMask) << (kBits * at++)), ...);
  return from_word<T>(word);
}

// The block's own memory needs no atomics: its threads take turns.
template <typename T, bool Alone, typename Change>
inline T changed(uint64_t at, Change change) {
  T* const place = reinterpret_cast<T*>(at);
  if constexpr (Alone) {
    T old;
    __builtin_memcpy(&old, place, sizeof old);
    const T next = change(old);
    __builtin_memcpy(place, &next, sizeof next);
    return old;
  } else {
    T old;
    __atomic_load(place, &old, __ATOMIC_RELAXED);
    T next = change(old);
    while (
        !__atomic_compare_exchange(place, &old, &next, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
      next = change(old);
    }
    return old;
  }
}

#define LAMBENT_PTX_ATOMIC(name, expression)                            \
  template <typename T, bool Alone>                                     \
  inline T atomic_##name(uint64_t at, T b) {                            \
    return changed<T, Alone>(at, [b](T a) -> T { return expression; }); \
  }
LAMBENT_PTX_ATOMIC(add, plus(a, b))
LAMBENT_PTX_ATOMIC(inc, a >= b ? T{} : static_cast<T>(a + T{1}))
LAMBENT_PTX_ATOMIC(dec, a == T{} || a > b ? b : static_cast<T>(a - T{1}))
LAMBENT_PTX_ATOMIC(min, b < a ? b : a)
LAMBENT_PTX_ATOMIC(max, a < b ? b : a)
LAMBENT_PTX_ATOMIC(and, a& b)
LAMBENT_PTX_ATOMIC(or, a | b)
LAMBENT_PTX_ATOMIC(xor, a ^ b)
LAMBENT_PTX_ATOMIC(exch, b)
#undef LAMBENT_PTX_ATOMIC
template <typename T, bool Alone>
inline T atomic_cas(uint64_t at, T expected, T next) {
  return changed<T, Alone>(at, [=](T a) -> T { return a == expected ? next : a; });
}

template <typename T>
inline T all_ones(bool holds) {
  if constexpr (std::is_floating_point_v<T>) {
    return holds ? T{1} : T{};
  } else if constexpr (!std::is_arithmetic_v<T>) {
    return T(holds ? 1.0f : 0.0f);  // a small float
  } else {
    return holds ? static_cast<T>(~T{}) : T{};
  }
}
template <typename T>
inline T saturated(T value) {
  return value > T{1} ? T{1} : value > T{} ? value : T{};
}

template <typename T>
inline constexpr bool is_small_float = !std::is_arithmetic_v<T>;

// A number as a small float, which is rounded once.
template <typename To>
inline To narrowed(double value, int rounding) {
  using Format = std::conditional_t<std::is_same_v<To, __half>, HalfFormat, BrainFormat>;
  return bits<To>(Format::from_double(value, rounding));
}

// Mode: of whole numbers N, Z, M, P; of rounding n, z, m, p.
template <char Mode, typename T>
inline T made_whole(T value) {
  if constexpr (Mode == 'N') return std::nearbyint(value);
  if constexpr (Mode == 'Z') return std::trunc(value);
  if constexpr (Mode == 'M') return std::floor(value);
  if constexpr (Mode == 'P') return std::ceil(value);
  return value;
}

template <char Mode>
inline constexpr int rounding_of = Mode == 'z'   ? FE_TOWARDZERO
                                   : Mode == 'm' ? FE_DOWNWARD
                                   : Mode == 'p' ? FE_UPWARD
                                                 : FE_TONEAREST;

template <typename To, typename From, char Mode, typename A>
inline To convert_number(A a) {
  const From value = bits<From>(a);
  constexpr int kRounding = rounding_of<Mode>;
  if constexpr (is_small_float<From>) {
    return convert_number<To, float, Mode>(static_cast<float>(value));
  } else if constexpr (is_small_float<To>) {
    if constexpr (std::is_integral_v<From>) {
      return narrowed<To>(static_cast<double>(value), kRounding);
    } else {
      return narrowed<To>(made_whole<Mode>(value), kRounding);
    }
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return to_integer<To>(made_whole<Mode>(value));
  } else if constexpr (std::is_floating_point_v<To> && kRounding != FE_TONEAREST) {
    return convert<To>(kRounding, value);
  } else if constexpr (std::is_floating_point_v<From>) {
    return static_cast<To>(made_whole<Mode>(value));
  } else {
    return static_cast<To>(value);
  }
}

// With .sat: numbers end where To does, fractions at 0 and 1.
template <typename To, typename From, char Mode, typename A>
inline To convert_within(A a) {
  if constexpr (std::is_integral_v<To> && std::is_integral_v<From>) {
    const auto value = static_cast<__int128>(bits<From>(a));
    const auto least = static_cast<__int128>(std::numeric_limits<To>::min());
    const auto most = static_cast<__int128>(std::numeric_limits<To>::max());
    return static_cast<To>(value < least ? least : value > most ? most : value);
  } else if constexpr (is_small_float<From>) {
    return convert_within<To, float, Mode>(static_cast<float>(bits<From>(a)));
  } else if constexpr (is_small_float<To>) {
    return narrowed<To>(saturated(static_cast<double>(convert_number<double, From, Mode>(a))),
                        rounding_of<Mode>);
  } else if constexpr (std::is_floating_point_v<To>) {
    return saturated(convert_number<To, From, Mode>(a));
  } else {
    return convert_number<To, From, Mode>(a);
  }
}

// Two numbers as a pair of small floats, the first in the higher half.
template <typename To, char Mode, typename A, typename B>
inline uint32_t convert_pair(A high, B low) {
  const uint32_t above = bits<uint16_t>(convert_number<To, float, Mode>(high));
  return above << 16 | bits<uint16_t>(convert_number<To, float, Mode>(low));
}

template <typename T, typename A, typename B>
inline T min_nan_(A a_, B b_) {
  const T a = bits<T>(a_), b = bits<T>(b_);
  return !is_number(a) ? a : !is_number(b) ? b : min_<T>(a, b);
}
template <typename T, typename A, typename B>
inline T max_nan_(A a_, B b_) {
  const T a = bits<T>(a_), b = bits<T>(b_);
  return !is_number(a) ? a : !is_number(b) ? b : max_<T>(a, b);
}
#define LAMBENT_PTX_OF_HALVES(name)                                                            \
  template <typename T, typename A, typename B>                                                \
  inline uint32_t name##_of_halves(A a_, B b_) {                                               \
    const uint32_t a = bits<uint32_t>(a_), b = bits<uint32_t>(b_);                             \
    const auto half = [](uint32_t pair, int at) { return static_cast<uint16_t>(pair >> at); }; \
    const uint32_t high = bits<uint16_t>(name##_<T>(half(a, 16), half(b, 16)));                \
    return high << 16 | bits<uint16_t>(name##_<T>(half(a, 0), half(b, 0)));                    \
  }
LAMBENT_PTX_OF_HALVES(min)
LAMBENT_PTX_OF_HALVES(max)
LAMBENT_PTX_OF_HALVES(min_nan)
LAMBENT_PTX_OF_HALVES(max_nan)
#undef LAMBENT_PTX_OF_HALVES

// How far the four bytes of a are from those of b, which are of T's and U's kind.
template <typename T, typename U, typename A, typename B, typename C>
inline uint32_t vabsdiff4(A a_, B b_, C /*kept*/) {
  const uint32_t a = bits<uint32_t>(a_), b = bits<uint32_t>(b_);
  uint32_t apart = 0;
  for (int at = 0; at < 32; at += 8) {
    const int x =
        std::is_signed_v<T> ? static_cast<int8_t>(a >> at) : static_cast<uint8_t>(a >> at);
    const int y =
        std::is_signed_v<U> ? static_cast<int8_t>(b >> at) : static_cast<uint8_t>(b >> at);
    apart |= static_cast<uint32_t>(static_cast<uint8_t>(x > y ? x - y : y - x)) << at;
  }
  return apart;
}
template <typename T, typename U, typename A, typename B, typename C>
inline uint32_t vabsdiff4_add(A a, B b, C sum) {
  const uint32_t apart = vabsdiff4<T, U>(a, b, sum);
  return bits<uint32_t>(sum) + (apart & 255) + (apart >> 8 & 255) + (apart >> 16 & 255) +
         (apart >> 24);
}

// The first bytes of Size, and zeros behind them.
template <size_t Size, typename Count>
inline void copy_and_fill(uint64_t to, uint64_t from, Count count) {
  uint8_t bytes[Size] = {};
  const uint32_t copied = static_cast<uint32_t>(count);
  __builtin_memcpy(bytes, reinterpret_cast<const void*>(from), copied < Size ? copied : Size);
  __builtin_memcpy(reinterpret_cast<void*>(to), bytes, Size);
}

// Arithmetic with a stated rounding, under the names of PTX.
#define LAMBENT_PTX_ROUNDED(name, mode, suffix, single, twice)                 \
  template <typename T, typename... Each>                                      \
  inline T name##_##mode(Each... each) {                                       \
    if constexpr (sizeof(T) == 4) return __##single##suffix(bits<T>(each)...); \
    if constexpr (sizeof(T) == 8) return __##twice##suffix(bits<T>(each)...);  \
  }
#define LAMBENT_PTX_ROUNDED_ALL(name, single, twice) \
  LAMBENT_PTX_ROUNDED(name, rz, _rz, single, twice)  \
  LAMBENT_PTX_ROUNDED(name, rm, _rd, single, twice)  \
  LAMBENT_PTX_ROUNDED(name, rp, _ru, single, twice)
LAMBENT_PTX_ROUNDED_ALL(add, fadd, dadd)
LAMBENT_PTX_ROUNDED_ALL(sub, fsub, dsub)
LAMBENT_PTX_ROUNDED_ALL(mul, fmul, dmul)
LAMBENT_PTX_ROUNDED_ALL(div, fdiv, ddiv)
LAMBENT_PTX_ROUNDED_ALL(fma, fmaf, fma)
LAMBENT_PTX_ROUNDED_ALL(rcp, frcp, drcp)
LAMBENT_PTX_ROUNDED_ALL(sqrt, fsqrt, dsqrt)
#undef LAMBENT_PTX_ROUNDED_ALL
#undef LAMBENT_PTX_ROUNDED

// Before an access to shared memory in lockstep: `site` counts those of the source.
LAMBENT_INLINE void come_together(unsigned site) {
  block.request = Request::kTogether;
  block.line = site;
  leave_thread();
}

template <typename T>
struct LaneAnswer {
  T value;
  bool holds;
};

// One lane of those in the mask.
inline LaneAnswer<uint32_t> elect(uint32_t mask) {
  const uint32_t first = mask == 0 ? 0 : static_cast<uint32_t>(__builtin_ctz(mask));
  return {first, lane() == first};
}

// A shuffle as the instruction has it: `limits` holds the last lane of a segment, and which bits of
// a lane say its segment.
struct ShufflePlace {
  unsigned lane, first, last;
  explicit ShufflePlace(unsigned limits) : lane(host::lane()) {
    const unsigned segment = limits >> 8 & 31;
    first = lane & segment;
    last = first | (limits & 31 & ~segment);
  }
};

template <typename T, typename A>
LAMBENT_INLINE LaneAnswer<T> shuffled(unsigned mask, A a, unsigned from, bool holds) {
  return {shuffle<T>(mask, bits<T>(a), holds ? from : host::lane()), holds};
}
template <typename T, typename A>
LAMBENT_INLINE LaneAnswer<T> shfl_up(A a, unsigned distance, unsigned limits, unsigned mask) {
  const ShufflePlace place(limits);
  const int from = static_cast<int>(place.lane) - static_cast<int>(distance & 31);
  return shuffled<T>(mask, a, static_cast<unsigned>(from), from >= static_cast<int>(place.last));
}
template <typename T, typename A>
LAMBENT_INLINE LaneAnswer<T> shfl_down(A a, unsigned distance, unsigned limits, unsigned mask) {
  const ShufflePlace place(limits);
  const unsigned from = place.lane + (distance & 31);
  return shuffled<T>(mask, a, from, from <= place.last);
}
template <typename T, typename A>
LAMBENT_INLINE LaneAnswer<T> shfl_bfly(A a, unsigned lanes, unsigned limits, unsigned mask) {
  const ShufflePlace place(limits);
  const unsigned from = place.lane ^ (lanes & 31);
  return shuffled<T>(mask, a, from, from <= place.last);
}
template <typename T, typename A>
LAMBENT_INLINE LaneAnswer<T> shfl_idx(A a, unsigned lane, unsigned limits, unsigned mask) {
  const ShufflePlace place(limits);
  const unsigned segment = limits >> 8 & 31;
  const unsigned from = place.first | (lane & 31 & ~segment);
  return shuffled<T>(mask, a, from, from <= place.last);
}

template <typename T, typename A>
LAMBENT_INLINE LaneAnswer<unsigned> match_any(A a, unsigned mask) {
  return {__match_any_sync(mask, bits<T>(a)), true};
}
template <typename T, typename A>
LAMBENT_INLINE LaneAnswer<unsigned> match_all(A a, unsigned mask) {
  int same = 0;
  const unsigned lanes = __match_all_sync(mask, bits<T>(a), &same);
  return {lanes, same != 0};
}
LAMBENT_INLINE unsigned vote_ballot(bool holds, unsigned mask) {
  return __ballot_sync(mask, holds);
}
LAMBENT_INLINE bool vote_any(bool holds, unsigned mask) { return __any_sync(mask, holds) != 0; }
LAMBENT_INLINE bool vote_all(bool holds, unsigned mask) { return __all_sync(mask, holds) != 0; }
LAMBENT_INLINE bool vote_uni(bool holds, unsigned mask) {
  const auto answer = meet(WarpOperation::kBallot, mask, holds, 0);
  return answer.value == answer.present || answer.value == 0;
}
template <typename T>
using ReducedAs = std::conditional_t<std::is_signed_v<T>, int, unsigned>;
#define LAMBENT_PTX_REDUX(name)                                                 \
  template <typename T, typename A>                                             \
  LAMBENT_INLINE T redux_##name(A a, unsigned mask) {                           \
    return __reduce_##name##_sync(mask, static_cast<ReducedAs<T>>(bits<T>(a))); \
  }
LAMBENT_PTX_REDUX(add)
LAMBENT_PTX_REDUX(min)
LAMBENT_PTX_REDUX(max)
LAMBENT_PTX_REDUX(and)
LAMBENT_PTX_REDUX(or)
LAMBENT_PTX_REDUX(xor)
#undef LAMBENT_PTX_REDUX

// A barrier of the whole block, whatever its number. One of some of its threads has nowhere to
// wait.
LAMBENT_INLINE void named_barrier(unsigned /*number*/, unsigned threads) {
  if (threads != blockDim.x * blockDim.y * blockDim.z) {
    report_misuse("a barrier of some of the block's threads (bar.sync with their number)");
  }
  __syncthreads();
}

// printf: the arguments lie in `packed`, each at a multiple of its size.
inline void call_vprintf(uint8_t* result, uint8_t* format_at, uint8_t* packed_at) {
  const char* format;
  const uint8_t* packed;
  __builtin_memcpy(&format, format_at, sizeof format);
  __builtin_memcpy(&packed, packed_at, sizeof packed);
  size_t at = 0;
  const auto next = [&](auto& value) {
    at = (at + sizeof value - 1) / sizeof value * sizeof value;
    __builtin_memcpy(&value, packed + at, sizeof value);
    at += sizeof value;
  };
  int written = 0;
  for (const char* c = format; *c != '\0';) {
    if (*c != '%' || c[1] == '%') {
      fputc(*c, stdout);
      c += *c == '%' ? 2 : 1;
      ++written;
      continue;
    }
    char one[64];
    size_t length = 0;
    bool is_long = false;
    one[length++] = *c++;
    while (*c != '\0' && length < sizeof one - 24) {
      if (*c == '*') {
        int width;
        next(width);
        length += static_cast<size_t>(snprintf(one + length, 16, "%d", width));
        ++c;
        continue;
      }
      is_long = is_long || *c == 'l' || *c == 'z' || *c == 'j' || *c == 't';
      one[length++] = *c;
      const char kind = *c++;
      if ((kind >= 'a' && kind <= 'z' && kind != 'l' && kind != 'h' && kind != 'z' && kind != 'j' &&
           kind != 't') ||
          (kind >= 'A' && kind <= 'Z')) {
        break;
      }
    }
    one[length] = '\0';
    const char kind = one[length - 1];
    if (kind == 's' || kind == 'p') {
      const void* pointer;
      next(pointer);
      written += printf(one, pointer);
    } else if (kind == 'e' || kind == 'f' || kind == 'g' || kind == 'a' || kind == 'E' ||
               kind == 'F' || kind == 'G' || kind == 'A') {
      double value;
      next(value);
      written += printf(one, value);
    } else if (is_long) {
      long long value;
      next(value);
      written += printf(one, value);
    } else {
      int value;
      next(value);
      written += printf(one, value);
    }
  }
  __builtin_memcpy(result, &written, sizeof written);
}

inline void call___assertfail(uint8_t* message_at, uint8_t* file_at, uint8_t* line_at,
                              uint8_t* function_at, uint8_t* /*character*/) {
  const char *message, *file, *function;
  unsigned line;
  __builtin_memcpy(&message, message_at, sizeof message);
  __builtin_memcpy(&file, file_at, sizeof file);
  __builtin_memcpy(&function, function_at, sizeof function);
  __builtin_memcpy(&line, line_at, sizeof line);
  fail_assertion(message, file, line, function);
}

inline void call_malloc(uint8_t* result, uint8_t* bytes_at) {
  size_t bytes;
  __builtin_memcpy(&bytes, bytes_at, sizeof bytes);
  void* const memory = malloc(bytes);
  __builtin_memcpy(result, &memory, sizeof memory);
}
inline void call_free(uint8_t* memory_at) {
  void* memory;
  __builtin_memcpy(&memory, memory_at, sizeof memory);
  free(memory);
}

}  // namespace lambent::host::ptx
