// The built-in linear algebra against its definition, computed in double precision. Tolerance: a
// sum of k products of numbers up to 1 may be off by k times twice the precision of its type.
#include <complex>
#include <limits>
#include <random>

#include "host_kernels.h"

namespace lambent {
namespace {

class Blas : public HostKernels {};
INSTANTIATE_TEST_SUITE_P(Each, Blas, testing::ValuesIn(compilers()), compiler_name);

using Wide = std::complex<double>;

template <typename T>
struct Precision {
  using Number = T;
  static T make(double real, double) { return static_cast<T>(real); }
};
template <>
struct Precision<std::complex<float>> {
  using Number = float;
  static std::complex<float> make(double real, double imaginary) {
    return {static_cast<float>(real), static_cast<float>(imaginary)};
  }
};

template <typename T>
double tolerance(int products) {
  return 2.0 * (products + 2) * std::numeric_limits<typename Precision<T>::Number>::epsilon();
}

template <typename T>
std::vector<T> random_numbers(size_t count, std::mt19937& random) {
  std::uniform_real_distribution<double> some(-1, 1);
  std::vector<T> numbers(count);
  for (T& number : numbers) number = Precision<T>::make(some(random), some(random));
  return numbers;
}

// The element of an operand after it was transposed (1) or conjugated too (2).
template <typename T>
Wide element(const std::vector<T>& matrix, int stride, int transposed, int row, int column) {
  if (transposed == 0) return Wide(matrix[row * stride + column]);
  const Wide value(matrix[column * stride + row]);
  return transposed == 2 ? std::conj(value) : value;
}

struct Product {
  int m, n, k;
  int transpose_a = 0, transpose_b = 0;
  bool accumulate = false;
  int padding = 0;  // elements between the rows of a matrix
};

template <typename T>
void check_gemm(const HostModule& module, const std::string& name, const Product& product) {
  const auto& [m, n, k, transpose_a, transpose_b, accumulate, padding] = product;
  SCOPED_TRACE(name + " " + std::to_string(m) + " x " + std::to_string(n) + " x " +
               std::to_string(k) + ", transposed " + std::to_string(transpose_a) + " " +
               std::to_string(transpose_b));
  std::mt19937 random(1);
  const int stride_a = (transpose_a == 0 ? k : m) + padding;
  const int stride_b = (transpose_b == 0 ? n : k) + padding;
  const int stride_c = n + padding;
  const auto a = random_numbers<T>(size_t(transpose_a == 0 ? m : k) * stride_a, random);
  const auto b = random_numbers<T>(size_t(transpose_b == 0 ? k : n) * stride_b, random);
  auto c = random_numbers<T>(size_t(m) * stride_c, random);
  // What is not to be read must not matter.
  const auto nan = Precision<T>::make(std::numeric_limits<double>::quiet_NaN(), 0);
  if (!accumulate) std::fill(c.begin(), c.end(), nan);
  const auto before = c;
  const T alpha = Precision<T>::make(0.5, -1);
  const T beta = accumulate ? Precision<T>::make(-2, 0.25) : T{};
  run_kernel(module.kernel(name), {(n + 63) / 64u, (m + 63) / 64u, 1}, {16, 16, 1}, a.data(),
             b.data(), c.data(), m, n, k, stride_a, stride_b, stride_c, transpose_a, transpose_b,
             alpha, beta);
  for (int row = 0; row < m; ++row) {
    for (int column = 0; column < n; ++column) {
      Wide sum = 0;
      for (int i = 0; i < k; ++i) {
        sum += element(a, stride_a, transpose_a, row, i) *
               element(b, stride_b, transpose_b, i, column);
      }
      Wide expected = Wide(alpha) * sum;
      if (accumulate) expected += Wide(beta) * Wide(before[row * stride_c + column]);
      ASSERT_NEAR(std::abs(expected - Wide(c[row * stride_c + column])), 0, 4 * tolerance<T>(k))
          << row << ", " << column;
    }
  }
  for (int row = 0; row < m; ++row) {
    for (int i = n; i < stride_c; ++i) {
      ASSERT_EQ(memcmp(&c[row * stride_c + i], &before[row * stride_c + i], sizeof(T)), 0)
          << "wrote behind row " << row;
    }
  }
}

template <typename T>
void check_all_products(const HostModule& module, const std::string& name, int most_transposed) {
  for (const auto& [m, n, k] : {std::array{1, 1, 1}, {64, 64, 16}, {65, 63, 17}, {3, 130, 40}}) {
    check_gemm<T>(module, name, {m, n, k, 0, 0, true, 0});
  }
  for (int a = 0; a <= most_transposed; ++a) {
    for (int b = 0; b <= most_transposed; ++b)
      check_gemm<T>(module, name, {37, 70, 19, a, b, a != b, 3});
  }
}

TEST_P(Blas, ProductsOfEverySizeAndTransposition) {
  const HostModule module = open("blas");
  check_all_products<float>(module, "sgemm", 2);
  check_all_products<double>(module, "dgemm", 1);
  check_all_products<std::complex<float>>(module, "cgemm", 2);
}

template <typename T>
void check_gemv(const HostModule& module, const std::string& name, int m, int n, int transpose_a,
                unsigned blocks) {
  SCOPED_TRACE(name + " " + std::to_string(m) + " x " + std::to_string(n) + ", transposed " +
               std::to_string(transpose_a));
  std::mt19937 random(2);
  const int stride = n + 2;
  const int rows = transpose_a == 0 ? m : n;
  const int columns = transpose_a == 0 ? n : m;
  const auto a = random_numbers<T>(size_t(m) * stride, random);
  const auto x = random_numbers<T>(columns, random);
  auto y = random_numbers<T>(rows + 1, random);
  const auto before = y;
  const T alpha = Precision<T>::make(2, 1), beta = Precision<T>::make(0.5, 0.5);
  run_kernel(module.kernel(name), {blocks, 1, 1}, {256, 1, 1}, a.data(), x.data(), y.data(), m, n,
             stride, transpose_a, alpha, beta);
  for (int row = 0; row < rows; ++row) {
    Wide sum = 0;
    for (int i = 0; i < columns; ++i) sum += element(a, stride, transpose_a, row, i) * Wide(x[i]);
    const Wide expected = Wide(alpha) * sum + Wide(beta) * Wide(before[row]);
    ASSERT_NEAR(std::abs(expected - Wide(y[row])), 0, 4 * tolerance<T>(columns)) << row;
  }
  EXPECT_EQ(y[rows], before[rows]);
}

TEST_P(Blas, MatrixTimesVectorWithAnyNumberOfBlocks) {
  const HostModule module = open("blas");
  for (const unsigned blocks : {1u, 2u, 9u}) {
    for (const int transposed : {0, 1}) {
      check_gemv<float>(module, "sgemv", 70, 45, transposed, blocks);
      check_gemv<double>(module, "dgemv", 45, 70, transposed, blocks);
      check_gemv<std::complex<float>>(module, "cgemv", 33, 33, 2 * transposed, blocks);
    }
  }
}

template <typename T>
void check_axpy(const HostModule& module, const std::string& name) {
  std::mt19937 random(3);
  const int count = 1000;
  const auto x = random_numbers<T>(count, random);
  auto y = random_numbers<T>(count + 1, random);
  const auto before = y;
  const T alpha = Precision<T>::make(-3, 1);
  run_kernel(module.kernel(name), {3, 1, 1}, {256, 1, 1}, count, alpha, x.data(), y.data());
  for (int i = 0; i < count; ++i) {
    ASSERT_NEAR(std::abs(Wide(alpha) * Wide(x[i]) + Wide(before[i]) - Wide(y[i])), 0,
                8 * tolerance<T>(1))
        << name << " " << i;
  }
  EXPECT_EQ(y[count], before[count]);
}

TEST_P(Blas, SumsOfVectors) {
  const HostModule module = open("blas");
  check_axpy<float>(module, "saxpy");
  check_axpy<double>(module, "daxpy");
  check_axpy<std::complex<float>>(module, "caxpy");
}

TEST_P(Blas, ModelledDurationsGrowWithTheWork) {
  const HostModule module = open("blas");
  const emulated_launch launch = {{16, 16, 1}, {16, 16, 1}, 0};
  const void* pointer = nullptr;
  const auto duration_ns = [&](const std::string& name, int m, int n, int k) {
    int zero = 0;
    std::complex<float> one = 1;
    void* parameters[] = {&pointer, &pointer, &pointer, &m,    &n,   &k,  &zero,
                          &zero,    &zero,    &zero,    &zero, &one, &one};
    return module.kernel(name).duration_ns(&launch, parameters);
  };
  // The paper's complex product takes 39 ms on a V100.
  EXPECT_NEAR(duration_ns("cgemm", 100, 25000, 10000) / 1e6, 39, 1);
  EXPECT_NEAR(duration_ns("sgemm", 1024, 1024, 1024) / 1e3, 4 + 2.147e9 / 12e6, 1);
  EXPECT_NEAR(duration_ns("dgemm", 1, 1, 1) / 1e3, 4, 0.1);
}

}  // namespace
}  // namespace lambent
