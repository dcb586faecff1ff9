// Operations of a warp: shuffles, votes, matches, reductions. The lanes that the mask names and
// that have not returned wait for each other, whatever way they came, as with the independent
// thread scheduling of GPUs since Volta. Used by kernels.
#pragma once

#include <bit>
#include <type_traits>

#include "lambent/host/barriers.h"

namespace lambent::host {

struct WarpAnswer {
  uint64_t value;
  unsigned present;  // the lanes that took part
};

LAMBENT_INLINE WarpAnswer meet(WarpOperation operation, unsigned mask, uint64_t value,
                               unsigned operand) {
  block.request = Request::kWarpOperation;
  block.operation = operation;
  block.mask = mask;
  block.value = value;
  block.operand = operand;
  leave_thread();
  return {block.current->value, block.current->present};
}

inline unsigned lane() { return linear(threadIdx) % kWarp; }

template <typename T>
inline constexpr bool is_shuffled = sizeof(T) <= 8 && std::is_trivially_copyable_v<T>;

template <typename T>
inline uint64_t to_word(T value) {
  static_assert(is_shuffled<T>, "warp operations take values of at most 8 bytes");
  uint64_t word = 0;
  __builtin_memcpy(&word, &value, sizeof value);
  return word;
}

template <typename T>
inline T from_word(uint64_t word) {
  T value;
  __builtin_memcpy(&value, &word, sizeof value);
  return value;
}

// A component of threadIdx and its like is an unsigned.
template <typename T>
using Plain = std::conditional_t<std::is_same_v<T, IndexComponent>, unsigned, T>;

template <typename T>
LAMBENT_INLINE T shuffle(unsigned mask, T value, unsigned from) {
  return from_word<T>(meet(WarpOperation::kShuffle, mask, to_word(value), from % kWarp).value);
}

// Sign-extended or zero-extended, so that the 64-bit comparison is that of T.
template <typename T>
LAMBENT_INLINE T reduce(WarpOperation operation, unsigned mask, T value) {
  static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned>,
                "__reduce_*_sync is for int and unsigned");
  const auto wide = static_cast<uint64_t>(static_cast<int64_t>(value));
  return static_cast<T>(meet(operation, mask, wide, 0).value);
}

}  // namespace lambent::host

template <typename T>
LAMBENT_INLINE lambent::host::Plain<T> __shfl_sync(unsigned mask, T value, int from,
                                                   int width = 32) {
  const unsigned segment = lambent::host::lane() & ~(unsigned(width) - 1);
  return lambent::host::shuffle<lambent::host::Plain<T>>(
      mask, value, segment | (unsigned(from) & (unsigned(width) - 1)));
}
template <typename T>
LAMBENT_INLINE lambent::host::Plain<T> __shfl_up_sync(unsigned mask, T value, unsigned delta,
                                                      int width = 32) {
  const unsigned lane = lambent::host::lane(), place = lane & (unsigned(width) - 1);
  return lambent::host::shuffle<lambent::host::Plain<T>>(mask, value,
                                                         place >= delta ? lane - delta : lane);
}
template <typename T>
LAMBENT_INLINE lambent::host::Plain<T> __shfl_down_sync(unsigned mask, T value, unsigned delta,
                                                        int width = 32) {
  const unsigned lane = lambent::host::lane(), place = lane & (unsigned(width) - 1);
  return lambent::host::shuffle<lambent::host::Plain<T>>(
      mask, value, delta < unsigned(width) - place ? lane + delta : lane);
}
template <typename T>
LAMBENT_INLINE lambent::host::Plain<T> __shfl_xor_sync(unsigned mask, T value, int lanes,
                                                       int width = 32) {
  const unsigned lane = lambent::host::lane(), other = lane ^ unsigned(lanes);
  // A lane of a later segment cannot be read, one of an earlier can.
  const bool readable = other / unsigned(width) <= lane / unsigned(width);
  return lambent::host::shuffle<lambent::host::Plain<T>>(mask, value, readable ? other : lane);
}

LAMBENT_INLINE unsigned __ballot_sync(unsigned mask, int predicate) {
  return static_cast<unsigned>(
      lambent::host::meet(lambent::host::WarpOperation::kBallot, mask, predicate != 0, 0).value);
}
LAMBENT_INLINE int __any_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) != 0;
}
LAMBENT_INLINE int __all_sync(unsigned mask, int predicate) {
  const auto answer =
      lambent::host::meet(lambent::host::WarpOperation::kBallot, mask, predicate != 0, 0);
  return answer.value == answer.present;
}

template <typename T>
LAMBENT_INLINE unsigned __match_any_sync(unsigned mask, T value) {
  return static_cast<unsigned>(
      lambent::host::meet(lambent::host::WarpOperation::kMatch, mask,
                          lambent::host::to_word<lambent::host::Plain<T>>(value), 0)
          .value);
}
template <typename T>
LAMBENT_INLINE unsigned __match_all_sync(unsigned mask, T value, int* same) {
  const auto answer =
      lambent::host::meet(lambent::host::WarpOperation::kMatch, mask,
                          lambent::host::to_word<lambent::host::Plain<T>>(value), 0);
  *same = answer.value == answer.present;
  return *same ? answer.present : 0;
}

template <typename T>
LAMBENT_INLINE lambent::host::Plain<T> __reduce_add_sync(unsigned mask, T value) {
  return lambent::host::reduce<lambent::host::Plain<T>>(lambent::host::WarpOperation::kAdd, mask,
                                                        value);
}
template <typename T>
LAMBENT_INLINE lambent::host::Plain<T> __reduce_min_sync(unsigned mask, T value) {
  using enum lambent::host::WarpOperation;
  return lambent::host::reduce<lambent::host::Plain<T>>(
      std::is_signed_v<T> ? kSignedMinimum : kMinimum, mask, value);
}
template <typename T>
LAMBENT_INLINE lambent::host::Plain<T> __reduce_max_sync(unsigned mask, T value) {
  using enum lambent::host::WarpOperation;
  return lambent::host::reduce<lambent::host::Plain<T>>(
      std::is_signed_v<T> ? kSignedMaximum : kMaximum, mask, value);
}
template <typename T>
LAMBENT_INLINE lambent::host::Plain<T> __reduce_and_sync(unsigned mask, T value) {
  return lambent::host::reduce<lambent::host::Plain<T>>(lambent::host::WarpOperation::kAnd, mask,
                                                        value);
}
template <typename T>
LAMBENT_INLINE lambent::host::Plain<T> __reduce_or_sync(unsigned mask, T value) {
  return lambent::host::reduce<lambent::host::Plain<T>>(lambent::host::WarpOperation::kOr, mask,
                                                        value);
}
template <typename T>
LAMBENT_INLINE lambent::host::Plain<T> __reduce_xor_sync(unsigned mask, T value) {
  return lambent::host::reduce<lambent::host::Plain<T>>(lambent::host::WarpOperation::kXor, mask,
                                                        value);
}

LAMBENT_INLINE void __syncwarp(unsigned mask = 0xffffffffu) {
  lambent::host::meet(lambent::host::WarpOperation::kSynchronize, mask, 0, 0);
}

// The lanes that stand at this line: asked only when no thread of the block can go on, so that
// lanes meet here as they would on a GPU that runs them together wherever it can.
LAMBENT_INLINE unsigned __activemask(unsigned line = __builtin_LINE()) {
  lambent::host::block.request = lambent::host::Request::kActiveMask;
  lambent::host::block.line = line;
  lambent::host::leave_thread();
  return static_cast<unsigned>(lambent::host::block.current->value);
}
