// nvcuda::wmma: products of small matrices by the 32 lanes of a warp together. An element of a
// fragment belongs to one lane, that of its place modulo 32. Used by kernels.
#pragma once

#include <cstring>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "lambent/host/warps.h"

namespace nvcuda::wmma {

enum layout_t { mem_row_major, mem_col_major };
struct row_major {};
struct col_major {};
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
namespace precision {
struct tf32 {};
}  // namespace precision

namespace host {

// Fragments of tf32 hold floats.
template <typename T>
using Stored = std::conditional_t<std::is_same_v<T, precision::tf32>, float, T>;

template <typename Use, int M, int N, int K>
inline constexpr int kRows = std::is_same_v<Use, matrix_b> ? K : M;
template <typename Use, int M, int N, int K>
inline constexpr int kColumns = std::is_same_v<Use, matrix_a> ? K : N;

template <typename T>
inline constexpr bool kIsSmall =
    std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16> ||
    std::is_same_v<T, signed char> || std::is_same_v<T, char> || std::is_same_v<T, unsigned char>;
template <typename Use, typename T, int M, int N, int K>
constexpr bool is_shape_of() {
  const bool is_wide = (M == 16 && N == 16) || (M == 32 && N == 8) || (M == 8 && N == 32);
  const bool of_double = M == 8 && N == 8 && K == 4, of_tf32 = M == 16 && N == 16 && K == 8;
  if constexpr (std::is_same_v<Use, accumulator>) {
    if (std::is_same_v<T, double>) return of_double;
    if (std::is_same_v<T, float>) return of_tf32 || (is_wide && K == 16);
    return (std::is_same_v<T, __half> || std::is_same_v<T, int>)&&is_wide && K == 16;
  }
  if (std::is_same_v<T, double>) return of_double;
  if (std::is_same_v<T, precision::tf32>) return of_tf32;
  return kIsSmall<T> && is_wide && K == 16;
}

// What is multiplied, in the type in which it is summed. The last 13 bits of a float are no part of
// a tf32.
template <typename T>
inline auto factor(Stored<T> value) {
  if constexpr (std::is_same_v<T, precision::tf32>) {
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    bits &= ~0x1fffu;
    std::memcpy(&value, &bits, sizeof bits);
    return value;
  } else if constexpr (std::is_same_v<T, double>) {
    return value;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<int>(value);
  } else {
    return static_cast<float>(value);
  }
}

// The factors of each warp of the block that this host thread runs: none has more than 640 of four
// bytes.
struct Factors {
  alignas(8) unsigned char bytes[640 * 4] = {};
};
static constinit thread_local Factors factors[lambent::host::kMostThreads / lambent::host::kWarp];

inline unsigned warp() { return lambent::host::linear(threadIdx) / lambent::host::kWarp; }

}  // namespace host

template <typename Use, int M, int N, int K, typename T, typename Layout = void>
class fragment {
  static_assert(
      host::is_shape_of<Use, T, M, N, K>(),
      "this shape of nvcuda::wmma is not supported in host kernels: 16x16x16, 32x8x16 and "
      "8x32x16 of half, bfloat16 and bytes, 16x16x8 of tf32, 8x8x4 of double are");

 public:
  static constexpr int kRows = host::kRows<Use, M, N, K>;
  static constexpr int kColumns = host::kColumns<Use, M, N, K>;
  static constexpr int num_elements = kRows * kColumns / 32;
  static constexpr int num_storage_elements = num_elements;
  using element_type = T;
  using storage_element_type = host::Stored<T>;

  storage_element_type x[num_elements];

  // Where the lane's elements lie, rows first.
  static unsigned place(int element) { return unsigned(element) * 32 + lambent::host::lane(); }
  static unsigned row(int element) { return place(element) / kColumns; }
  static unsigned column(int element) { return place(element) % kColumns; }
};

namespace host {

template <typename Fragment, typename From>
inline void load(Fragment& into, const From* from, unsigned leading, bool by_rows) {
  for (int i = 0; i < Fragment::num_elements; ++i) {
    const unsigned row = Fragment::row(i), column = Fragment::column(i);
    into.x[i] = from[by_rows ? size_t{row} * leading + column : size_t{column} * leading + row];
  }
}

// The product of one element, beside the order of sums as a GPU computes it.
template <typename A, typename B, typename Sum, typename Left, typename Right>
inline Sum sum_of(const Left* a, const Right* b, unsigned row, unsigned column, Sum sum) {
  for (int k = 0; k < A::kColumns; ++k) {
    if constexpr (std::is_same_v<Sum, int>) {
      sum = static_cast<int>(
          static_cast<unsigned>(sum) +
          static_cast<unsigned>(a[row * A::kColumns + k] * b[unsigned(k) * B::kColumns + column]));
    } else {
      sum += a[row * A::kColumns + k] * b[unsigned(k) * B::kColumns + column];
    }
  }
  return sum;
}

}  // namespace host

template <typename Use, int M, int N, int K, typename T, typename Layout>
LAMBENT_INLINE void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& into,
                                     const host::Stored<T>* from, unsigned leading) {
  static_assert(!std::is_void_v<Layout>, "an accumulator is loaded with its layout");
  __syncwarp();
  host::load(into, from, leading, std::is_same_v<Layout, row_major>);
}
template <int M, int N, int K, typename T>
LAMBENT_INLINE void load_matrix_sync(fragment<accumulator, M, N, K, T>& into, const T* from,
                                     unsigned leading, layout_t layout) {
  __syncwarp();
  host::load(into, from, leading, layout == mem_row_major);
}

template <int M, int N, int K, typename T>
LAMBENT_INLINE void store_matrix_sync(T* to, const fragment<accumulator, M, N, K, T>& from,
                                      unsigned leading, layout_t layout) {
  using Fragment = fragment<accumulator, M, N, K, T>;
  __syncwarp();
  for (int i = 0; i < Fragment::num_elements; ++i) {
    const unsigned row = Fragment::row(i), column = Fragment::column(i);
    to[layout == mem_row_major ? size_t{row} * leading + column : size_t{column} * leading + row] =
        from.x[i];
  }
  __syncwarp();
}

template <typename Use, int M, int N, int K, typename T, typename Layout, typename Value>
inline void fill_fragment(fragment<Use, M, N, K, T, Layout>& of, const Value& value) {
  for (auto& each : of.x) each = value;
}

// To the nearest, halves away from zero.
inline float __float_to_tf32(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0x1000u) & ~0x1fffu;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

// d = a b + c. Sums of halves are rounded once. What saturates are sums of bytes.
template <int M, int N, int K, typename D, typename C, typename T, typename LayoutA,
          typename LayoutB>
LAMBENT_INLINE void mma_sync(fragment<accumulator, M, N, K, D>& d,
                             const fragment<matrix_a, M, N, K, T, LayoutA>& a,
                             const fragment<matrix_b, M, N, K, T, LayoutB>& b,
                             const fragment<accumulator, M, N, K, C>& c, bool satf = false) {
  using A = fragment<matrix_a, M, N, K, T, LayoutA>;
  using B = fragment<matrix_b, M, N, K, T, LayoutB>;
  using Sums = fragment<accumulator, M, N, K, D>;
  using Factor = decltype(host::factor<T>(a.x[0]));
  static_assert(sizeof(Factor) * (M * K + K * N) <= sizeof(host::Factors));
  Factor* const left = reinterpret_cast<Factor*>(host::factors[host::warp()].bytes);
  Factor* const right = left + M * K;
  for (int i = 0; i < A::num_elements; ++i) left[A::place(i)] = host::factor<T>(a.x[i]);
  for (int i = 0; i < B::num_elements; ++i) right[B::place(i)] = host::factor<T>(b.x[i]);
  __syncwarp();
  for (int i = 0; i < Sums::num_elements; ++i) {
    const unsigned row = Sums::row(i), column = Sums::column(i);
    if constexpr (std::is_same_v<D, int>) {
      if (satf) {
        long long sum = c.x[i];
        sum = host::sum_of<A, B>(left, right, row, column, sum);
        d.x[i] = sum > 2147483647      ? 2147483647
                 : sum < -2147483648ll ? int(-2147483648ll)
                                       : int(sum);
      } else {
        d.x[i] = host::sum_of<A, B>(left, right, row, column, c.x[i]);
      }
    } else {
      using Sum = std::conditional_t<std::is_same_v<D, double>, double, float>;
      d.x[i] =
          static_cast<D>(host::sum_of<A, B>(left, right, row, column, static_cast<Sum>(c.x[i])));
    }
  }
  __syncwarp();
}

}  // namespace nvcuda::wmma
