// Launches of kernels/blas.cu with random shapes, for tests; and how far two results of one may be
// apart. Included by tests, and by the bench that compares on a GPU.
#pragma once

#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gpu/cublas/call.h"

namespace lambent::cublas {

using Wide = std::complex<double>;

struct RandomLaunch {
  char letter = 's';
  std::string routine;
  int m = 1, n = 1, k = 1;
  int how_a = 0, how_b = 0;
  int stride_a = 1, stride_b = 1, stride_c = 1;
  Wide alpha, beta;
  // Elements of the launch's operands, in its own order: a, b, c; a, x, y; nothing, x, y.
  size_t size_a = 0, size_b = 0, size_c = 0;

  bool has_a() const { return routine != "axpy"; }
  size_t number_bytes() const { return letter == 's' ? 4 : 8; }
};

inline RandomLaunch random_launch(std::mt19937& random, int most) {
  const auto some = [&](int least, int largest) {
    return std::uniform_int_distribution<int>(least, largest)(random);
  };
  RandomLaunch made;
  made.letter = "sdc"[some(0, 2)];
  const char* const routines[] = {"gemm", "gemm", "gemv", "axpy"};
  made.routine = routines[some(0, 3)];
  made.m = some(1, most);
  made.n = some(1, most);
  made.k = some(1, most);
  made.how_a = some(0, 2);
  made.how_b = some(0, 2);
  const auto number = [&] {
    const double real = some(1, 8) / 4.0;
    return Wide(real, made.letter == 'c' ? some(-4, 4) / 4.0 : 0);
  };
  made.alpha = number();
  if (some(0, 2) > 0) made.beta = number();
  const auto [m, n, k] = std::array{made.m, made.n, made.k};
  if (made.routine == "gemm") {
    made.stride_a = (made.how_a == 0 ? k : m) + some(0, 3);
    made.stride_b = (made.how_b == 0 ? n : k) + some(0, 3);
    made.stride_c = n + some(0, 3);
    made.size_a = static_cast<size_t>(made.how_a == 0 ? m : k) * made.stride_a;
    made.size_b = static_cast<size_t>(made.how_b == 0 ? k : n) * made.stride_b;
    made.size_c = static_cast<size_t>(m) * made.stride_c;
  } else if (made.routine == "gemv") {
    made.stride_a = n + some(0, 3);
    made.size_a = static_cast<size_t>(m) * made.stride_a;
    made.size_b = made.how_a == 0 ? n : m;
    made.size_c = made.how_a == 0 ? m : n;
  } else {
    made.beta = 1;
    made.size_b = made.size_c = n;
  }
  return made;
}

inline kernel_graph::LiteralArgument literal(int value) {
  return {DataType::kInt32, {reinterpret_cast<const char*>(&value), sizeof(value)}};
}

// A number as an element of the launch's operands.
inline std::string bytes_of(char letter, Wide value) {
  std::string bytes;
  const auto add = [&](auto part) {
    bytes.append(reinterpret_cast<const char*>(&part), sizeof(part));
  };
  if (letter == 'd') {
    add(value.real());
  } else {
    add(static_cast<float>(value.real()));
    if (letter == 'c') add(static_cast<float>(value.imag()));
  }
  return bytes;
}
inline Wide number_at(char letter, const char* from) {
  float single[2] = {};
  double full = 0;
  switch (letter) {
    case 'd':
      memcpy(&full, from, sizeof(full));
      return full;
    case 's':
      memcpy(single, from, sizeof(float));
      return single[0];
    default:
      memcpy(single, from, sizeof(single));
      return Wide(single[0], single[1]);
  }
}
// Of numbers between -1 and 1.
inline std::string random_numbers(char letter, size_t count, std::mt19937& random) {
  std::uniform_real_distribution<double> some(-1, 1);
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += bytes_of(letter, Wide(some(random), some(random)));
  return bytes;
}

// The launch as a graph has it, its operands in buffers 0, 1 and 2; of axpy, which has no a, in 0
// and 1.
inline kernel_graph::Launch launch_of(const RandomLaunch& made) {
  using kernel_graph::Access;
  using kernel_graph::BufferArgument;
  const auto scalar = [&](Wide value) {
    return kernel_graph::LiteralArgument{made.letter == 'd' ? DataType::kFp64 : DataType::kFp32,
                                         bytes_of(made.letter, value)};
  };
  const uint32_t first = made.has_a() ? 1 : 0;
  const BufferArgument a{0, 0, Access::kRead}, b{first, 0, Access::kRead},
      c{first + 1, 0, made.beta == Wide(0) ? Access::kWrite : Access::kReadWrite};
  kernel_graph::Launch launch{kBlasBundle, made.letter + made.routine, {}, {}, 0, {}};
  const auto blocks = [](size_t count, size_t each) {
    return static_cast<uint32_t>((count + each - 1) / each);
  };
  if (made.routine == "gemm") {
    launch.grid = {blocks(made.n, 64), blocks(made.m, 64), 1};
    launch.block = {16, 16, 1};
    launch.arguments = {a, b, c};
    for (const int number : {made.m, made.n, made.k, made.stride_a, made.stride_b, made.stride_c,
                             made.how_a, made.how_b}) {
      launch.arguments.push_back(literal(number));
    }
    launch.arguments.push_back(scalar(made.alpha));
    launch.arguments.push_back(scalar(made.beta));
  } else if (made.routine == "gemv") {
    launch.grid = {blocks(made.size_c, made.how_a == 0 ? 32 : 256), 1, 1};
    launch.block = {256, 1, 1};
    launch.arguments = {a,
                        b,
                        c,
                        literal(made.m),
                        literal(made.n),
                        literal(made.stride_a),
                        literal(made.how_a),
                        scalar(made.alpha),
                        scalar(made.beta)};
  } else {
    launch.grid = {blocks(made.n, 256), 1, 1};
    launch.block = {256, 1, 1};
    launch.arguments = {literal(made.n), scalar(made.alpha), b, c};
  }
  return launch;
}

// What it leaves in c, and how far from it a computed value may be: the half of what two of them
// may be apart.
struct Expected {
  std::vector<Wide> values;
  std::vector<double> tolerances;
};
// Of every `step`-th element, from the first; the others may be anything.
inline Expected expected_of(const RandomLaunch& made, const std::string& a, const std::string& b,
                            const std::string& c, size_t step = 1) {
  const auto at = [&](const std::string& bytes, size_t index) {
    return number_at(made.letter, bytes.data() + index * made.number_bytes());
  };
  // op(matrix)(row, column) of a row-major matrix.
  const auto element = [&](const std::string& bytes, int stride, int how, int row, int column) {
    const auto index = [&](int i, int j) { return static_cast<size_t>(i) * stride + j; };
    if (how == 0) return at(bytes, index(row, column));
    const Wide value = at(bytes, index(column, row));
    return how == 2 ? std::conj(value) : value;
  };
  const double epsilon = made.letter == 'd' ? std::numeric_limits<double>::epsilon()
                                            : std::numeric_limits<float>::epsilon();
  Expected expected;
  for (size_t i = 0; i < made.size_c; ++i) {
    expected.values.push_back(at(c, i));
    expected.tolerances.push_back(i % step == 0 ? 0 : std::numeric_limits<double>::infinity());
  }
  const auto set = [&](size_t index, int terms, auto term) {
    if (index % step != 0) return;
    Wide sum = 0;
    double size = 0;
    for (int i = 0; i < terms; ++i) {
      const auto [left, right] = term(i);
      sum += left * right;
      size += std::abs(left) * std::abs(right);
    }
    const Wide before = made.beta == Wide(0) ? 0 : at(c, index);
    expected.values[index] = made.alpha * sum + made.beta * before;
    expected.tolerances[index] =
        2.0 * (terms + 2) * epsilon * (std::abs(made.alpha) * size + std::abs(made.beta * before));
  };
  if (made.routine == "gemm") {
    for (int row = 0; row < made.m; ++row) {
      for (int column = 0; column < made.n; ++column) {
        set(static_cast<size_t>(row) * made.stride_c + column, made.k, [&](int i) {
          return std::pair(element(a, made.stride_a, made.how_a, row, i),
                           element(b, made.stride_b, made.how_b, i, column));
        });
      }
    }
  } else if (made.routine == "gemv") {
    for (size_t row = 0; row < made.size_c; ++row) {
      set(row, static_cast<int>(made.size_b), [&](int i) {
        return std::pair(element(a, made.stride_a, made.how_a, static_cast<int>(row), i), at(b, i));
      });
    }
  } else {
    for (size_t i = 0; i < made.size_c; ++i) {
      set(i, 1, [&](int) { return std::pair(Wide(1), at(b, i)); });
    }
  }
  return expected;
}

}  // namespace lambent::cublas
