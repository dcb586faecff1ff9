#include "gpu/cublas/call.h"

#include <cstring>
#include <string_view>

namespace lambent::cublas {
namespace {

using kernel_graph::BufferArgument;
using kernel_graph::Launch;
using kernel_graph::LiteralArgument;

constexpr unsigned kTile = 64;  // of kernels/blas.cu: a block's part of a product, each way
constexpr unsigned kEdge = 16;
constexpr unsigned kVectorThreads = 256;

// The launch's arguments, read as the kernel would; what does not fit makes `fits` false.
struct Arguments {
  const Launch& launch;
  bool fits = true;

  template <typename T>
  T literal(size_t index) {
    T value{};
    const auto* found = std::get_if<LiteralArgument>(&launch.arguments[index]);
    if (found == nullptr || found->bytes.size() != sizeof(T)) {
      fits = false;
    } else {
      memcpy(&value, found->bytes.data(), sizeof(T));
    }
    return value;
  }
  // A dimension, or the distance of rows, which is that long.
  int count(size_t index, int least = 1) {
    const int value = literal<int>(index);
    fits = fits && value >= least;
    return value;
  }
  int how(size_t index) {
    const int value = literal<int>(index);
    fits = fits && value >= 0 && value <= 2;
    return value;
  }
  std::array<char, 8> scalar(size_t index, Number number) {
    std::array<char, 8> bytes{};
    if (number == Number::kFloat) {
      const auto value = literal<std::array<char, 4>>(index);
      memcpy(bytes.data(), value.data(), value.size());
    } else {
      bytes = literal<std::array<char, 8>>(index);
    }
    return bytes;
  }
  uint8_t buffer(size_t index) {
    fits = fits && std::holds_alternative<BufferArgument>(launch.arguments[index]);
    return static_cast<uint8_t>(index);
  }
};

// Also minus zero, whose bytes are others.
bool is_zero(const std::array<char, 8>& scalar, Number number) {
  if (number == Number::kDouble) {
    double value = 0;
    memcpy(&value, scalar.data(), sizeof(value));
    return value == 0;
  }
  float parts[2] = {};
  memcpy(parts, scalar.data(), sizeof(parts));
  return parts[0] == 0 && parts[1] == 0;
}

// Exchanges the operands: C = op(A) op(B) of row-major matrices becomes C' = op(B)' op(A)'.
Call exchanged(const Call& rows) {
  Call columns = rows;
  std::swap(columns.m, columns.n);
  std::swap(columns.how_a, columns.how_b);
  std::swap(columns.stride_a, columns.stride_b);
  std::swap(columns.argument_a, columns.argument_b);
  return columns;
}

// gemm(a, b, c, m, n, k, stride_a, stride_b, stride_c, transpose_a, transpose_b, alpha, beta)
Call gemm_of(Arguments& arguments, Number number) {
  const Launch& launch = arguments.launch;
  Call call{.routine = Routine::kGemm, .number = number};
  call.m = arguments.count(3);
  call.n = arguments.count(4);
  call.k = arguments.count(5);
  call.how_a = arguments.how(9);
  call.how_b = arguments.how(10);
  call.stride_a = arguments.count(6, call.how_a == 0 ? call.k : call.m);
  call.stride_b = arguments.count(7, call.how_b == 0 ? call.n : call.k);
  call.stride_c = arguments.count(8, call.n);
  call.alpha = arguments.scalar(11, number);
  call.beta = arguments.scalar(12, number);
  call.argument_a = arguments.buffer(0);
  call.argument_b = arguments.buffer(1);
  call.argument_c = arguments.buffer(2);
  const auto tiles = [](int length) { return (static_cast<unsigned>(length) + kTile - 1) / kTile; };
  arguments.fits = arguments.fits && launch.block == kernel_graph::Extent{kEdge, kEdge, 1} &&
                   launch.grid.x >= tiles(call.n) && launch.grid.y >= tiles(call.m) &&
                   launch.grid.z == 1;
  return exchanged(call);
}

// gemv(a, x, y, m, n, stride_a, transpose_a, alpha, beta)
Call gemv_of(Arguments& arguments, Number number) {
  const Launch& launch = arguments.launch;
  const int rows = arguments.count(3), columns = arguments.count(4);
  const int how = arguments.how(6);
  Call call{.routine = Routine::kGemv, .number = number};
  call.stride_a = arguments.count(5, columns);
  call.alpha = arguments.scalar(7, number);
  call.beta = arguments.scalar(8, number);
  call.argument_a = arguments.buffer(0);
  call.argument_b = arguments.buffer(1);
  call.argument_c = arguments.buffer(2);
  arguments.fits = arguments.fits && launch.block == kernel_graph::Extent{kVectorThreads, 1, 1} &&
                   launch.grid.y == 1 && launch.grid.z == 1;
  if (how == 2 && number == Number::kComplex) {
    // The vectors as matrices of one column.
    call.routine = Routine::kGemm;
    call.m = columns;
    call.n = 1;
    call.k = rows;
    call.how_a = how;
    return exchanged(call);
  }
  call.m = columns;
  call.n = rows;
  call.how_a = how == 0 ? 1 : 0;
  return call;
}

// axpy(n, alpha, x, y)
Call axpy_of(Arguments& arguments, Number number) {
  const Launch& launch = arguments.launch;
  Call call{.routine = Routine::kAxpy, .number = number};
  call.n = arguments.count(0);
  call.alpha = arguments.scalar(1, number);
  call.argument_b = arguments.buffer(2);
  call.argument_c = arguments.buffer(3);
  arguments.fits = arguments.fits && launch.block.y == 1 && launch.block.z == 1 &&
                   launch.grid.y == 1 && launch.grid.z == 1;
  return call;
}

struct Kernel {
  std::string_view name;
  size_t arguments;
  Call (*call_of)(Arguments&, Number);
};
constexpr Kernel kKernels[] = {{"gemm", 13, gemm_of}, {"gemv", 9, gemv_of}, {"axpy", 4, axpy_of}};

std::optional<Number> number_of(char letter) {
  switch (letter) {
    case 's':
      return Number::kFloat;
    case 'd':
      return Number::kDouble;
    case 'c':
      return Number::kComplex;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Call> call_of(const Launch& launch) {
  if (launch.bundle != kBlasBundle || launch.kernel.empty()) return std::nullopt;
  const auto number = number_of(launch.kernel.front());
  if (!number) return std::nullopt;
  for (const Kernel& kernel : kKernels) {
    if (std::string_view(launch.kernel).substr(1) != kernel.name) continue;
    if (launch.arguments.size() != kernel.arguments) return std::nullopt;
    Arguments arguments{launch};
    const Call call = kernel.call_of(arguments, *number);
    if (!arguments.fits || is_zero(call.alpha, *number)) return std::nullopt;
    return call;
  }
  return std::nullopt;
}

}  // namespace lambent::cublas
