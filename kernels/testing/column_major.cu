// GEMM, GEMV and AXPY of column-major matrices as the BLAS define them, an element for each thread:
// what the stand-in for cuBLAS (tests/cublas) computes with. Written from the definition, not from
// kernels/blas.cu, so that the two can be held against each other. A product may be made in parts,
// whose sums lie in a workspace until they are added up.
#include <lambent/kernel.h>

namespace {

using Complex = float2;

__device__ float times(float a, float b) { return a * b; }
__device__ double times(double a, double b) { return a * b; }
__device__ Complex times(Complex a, Complex b) {
  return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
__device__ float plus(float a, float b) { return a + b; }
__device__ double plus(double a, double b) { return a + b; }
__device__ Complex plus(Complex a, Complex b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ float conjugated(float a) { return a; }
__device__ double conjugated(double a) { return a; }
__device__ Complex conjugated(Complex a) { return make_float2(a.x, -a.y); }
__device__ bool is_zero(float a) { return a == 0; }
__device__ bool is_zero(double a) { return a == 0; }
__device__ bool is_zero(Complex a) { return a.x == 0 && a.y == 0; }

// op(matrix)(row, column)
template <typename T>
__device__ T element(const T* matrix, int stride, int how, int row, int column) {
  if (how == 0) return matrix[row + static_cast<size_t>(column) * stride];
  const T value = matrix[column + static_cast<size_t>(row) * stride];
  return how == 2 ? conjugated(value) : value;
}

template <typename T>
__device__ void finish(T* to, T alpha, T sum, T beta) {
  const T scaled = times(alpha, sum);
  *to = is_zero(beta) ? scaled : plus(scaled, times(beta, *to));
}

__device__ int this_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

// sums[part * m * n + row + column * m], of as many parts as the grid has rows.
template <typename T>
__device__ void gemm_sums(T* sums, const T* a, const T* b, int m, int n, int k, int stride_a,
                          int stride_b, int how_a, int how_b) {
  const int parts = gridDim.y, part = blockIdx.y;
  const int at = this_thread();
  if (at >= m * n) return;
  T sum = {};
  for (int i = part * k / parts; i < (part + 1) * k / parts; ++i) {
    sum = plus(
        sum, times(element(a, stride_a, how_a, at % m, i), element(b, stride_b, how_b, i, at / m)));
  }
  sums[static_cast<size_t>(part) * m * n + at] = sum;
}

template <typename T>
__device__ void gemm_end(T* c, const T* sums, int parts, int m, int n, int stride_c, T alpha,
                         T beta) {
  const int at = this_thread();
  if (at >= m * n) return;
  T sum = {};
  for (int part = 0; part < parts; ++part) sum = plus(sum, sums[part * m * n + at]);
  finish(&c[at % m + static_cast<size_t>(at / m) * stride_c], alpha, sum, beta);
}

// y = alpha op(a) x + beta y, a of m rows and n columns.
template <typename T>
__device__ void gemv(const T* a, const T* x, T* y, int m, int n, int stride_a, int how, T alpha,
                     T beta) {
  const int rows = how == 0 ? m : n, columns = how == 0 ? n : m;
  const int row = this_thread();
  if (row >= rows) return;
  T sum = {};
  for (int i = 0; i < columns; ++i) {
    sum = plus(sum, times(element(a, stride_a, how, row, i), x[i]));
  }
  finish(&y[row], alpha, sum, beta);
}

template <typename T>
__device__ void axpy(int n, T alpha, const T* x, T* y) {
  const int i = this_thread();
  if (i < n) y[i] = plus(times(alpha, x[i]), y[i]);
}

}  // namespace

#define COLUMN_MAJOR(letter, T)                                                                \
  extern "C" __global__ void letter##gemm_sums(T* sums, const T* a, const T* b, int m, int n,  \
                                               int k, int stride_a, int stride_b, int how_a,   \
                                               int how_b) {                                    \
    gemm_sums<T>(sums, a, b, m, n, k, stride_a, stride_b, how_a, how_b);                       \
  }                                                                                            \
  extern "C" __global__ void letter##gemm_end(T* c, const T* sums, int parts, int m, int n,    \
                                              int stride_c, T alpha, T beta) {                 \
    gemm_end<T>(c, sums, parts, m, n, stride_c, alpha, beta);                                  \
  }                                                                                            \
  extern "C" __global__ void letter##gemv(const T* a, const T* x, T* y, int m, int n,          \
                                          int stride_a, int how, T alpha, T beta) {            \
    gemv<T>(a, x, y, m, n, stride_a, how, alpha, beta);                                        \
  }                                                                                            \
  extern "C" __global__ void letter##axpy(int n, T alpha, const T* x, T* y) {                  \
    axpy<T>(n, alpha, x, y);                                                                   \
  }                                                                                            \
  /* So long that products which may run at the same time do. */                               \
  LAMBENT_KERNEL_DURATION(letter##gemm_sums,                                                   \
                          [](dim3, dim3, T*, const T*, const T*, int, int, int, int, int, int, \
                             int) { return uint64_t{200'000}; });                              \
  LAMBENT_KERNEL(letter##gemm_sums);                                                           \
  LAMBENT_KERNEL(letter##gemm_end);                                                            \
  LAMBENT_KERNEL(letter##gemv);                                                                \
  LAMBENT_KERNEL(letter##axpy)

COLUMN_MAJOR(s, float);
COLUMN_MAJOR(d, double);
COLUMN_MAJOR(c, Complex);
