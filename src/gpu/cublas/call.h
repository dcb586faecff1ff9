// Call: what cuBLAS does in place of a launch of kernels/blas.cu. A value, found only from the
// launch; any thread.
//
// The kernels' matrices are row-major, those of cuBLAS column-major: the bytes of a row-major
// matrix are its transpose to cuBLAS, with the distance of its rows as the leading dimension. So
//     C = op(A) op(B)   is asked for as   C' = op(B)' op(A)'
// with the operands exchanged, each as it is or transposed as before. A matrix times a vector is
// transposed where it was not and the other way round; what cuBLAS has no word for there, a matrix
// that is conjugated but, to it, not transposed, is asked for as a product of matrices.
//
// The results are those of the kernels but for the order of sums. An element of a product over k
// differs by no more than 4 (k + 2) epsilon (|alpha| sum |a b| + |beta c|), epsilon being 2^-23 for
// numbers of 32 bits and 2^-52 for those of 64.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "decide/kernel_graph/graph.h"

namespace lambent::cublas {

inline constexpr char kBlasBundle[] = "lambent:blas";

enum class Number : uint8_t { kFloat, kDouble, kComplex };  // the last a pair of floats
enum class Routine : uint8_t { kGemm, kGemv, kAxpy };

// The arguments as cuBLAS calls them: gemm C = alpha A B + beta C, gemv with the vectors B and C
// for x and y and without k, axpy C = alpha B + C with only n.
struct Call {
  Routine routine = Routine::kGemm;
  Number number = Number::kFloat;
  int m = 0, n = 0, k = 0;
  int how_a = 0, how_b = 0;                                // as it is, transposed, conjugated too
  int stride_a = 1, stride_b = 1, stride_c = 1;            // leading dimensions of matrices
  alignas(8) std::array<char, 8> alpha{}, beta{};          // as many bytes as the number has
  uint8_t argument_a = 0, argument_b = 0, argument_c = 0;  // where the launch has them

  bool operator==(const Call&) const = default;
};

// None if it is no such launch, or one that the kernels do otherwise than cuBLAS: with a grid that
// leaves a part out, with empty matrices, with an alpha of zero (cuBLAS does not look at the
// operands then, and infinities in them are lost), or with arguments that make no sense.
std::optional<Call> call_of(const kernel_graph::Launch& launch);

}  // namespace lambent::cublas
