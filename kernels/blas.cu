// The basic linear algebra that comes with Lambent, as the bundle "lambent:blas" of kernel graphs:
// GEMM and GEMV in float, double and complex float, AXPY. Named and shaped as cuBLAS has them, but
// for row-major matrices, so that an executor may put cuBLAS in their place: a row-major product is
// the column-major one of the same bytes with the operands exchanged.
//
// A matrix is given by its first element and the distance between its rows in elements. An operand
// is taken as it is (0), transposed (1), or conjugated and transposed (2). With beta zero, what c
// or y held before is not read.
#include <lambent/kernel.h>

namespace {

using Complex = float2;  // x + iy

__device__ __forceinline__ float multiply(float a, float b) { return a * b; }
__device__ __forceinline__ double multiply(double a, double b) { return a * b; }
__device__ __forceinline__ Complex multiply(Complex a, Complex b) {
  return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
__device__ __forceinline__ float add(float a, float b) { return a + b; }
__device__ __forceinline__ double add(double a, double b) { return a + b; }
__device__ __forceinline__ Complex add(Complex a, Complex b) {
  return make_float2(a.x + b.x, a.y + b.y);
}
__device__ __forceinline__ float conjugate(float a) { return a; }
__device__ __forceinline__ double conjugate(double a) { return a; }
__device__ __forceinline__ Complex conjugate(Complex a) { return make_float2(a.x, -a.y); }
__device__ __forceinline__ bool is_zero(float a) { return a == 0; }
__device__ __forceinline__ bool is_zero(double a) { return a == 0; }
__device__ __forceinline__ bool is_zero(Complex a) { return a.x == 0 && a.y == 0; }

// alpha * sum + beta * old, without a look at `old` if beta is zero.
template <typename T>
__device__ __forceinline__ void blend(T alpha, T sum, T beta, T* to) {
  const T scaled = multiply(alpha, sum);
  *to = is_zero(beta) ? scaled : add(scaled, multiply(beta, *to));
}

// The element (row, column) of an operand with `rows` rows and `columns` columns after it was
// transposed or not; zero beyond them.
template <typename T>
__device__ __forceinline__ T operand(const T* matrix, int stride, int transposed, int rows,
                                     int columns, int row, int column) {
  if (row >= rows || column >= columns) return T{};
  if (transposed == 0) return matrix[static_cast<size_t>(row) * stride + column];
  const T value = matrix[static_cast<size_t>(column) * stride + row];
  return transposed == 2 ? conjugate(value) : value;
}

// A block makes kTile x kTile elements of c with kEdge x kEdge threads, each of them kEach x kEach.
constexpr int kTile = 64;
constexpr int kDepth = 16;  // of what lies in shared memory at a time
constexpr int kEdge = 16;
constexpr int kEach = kTile / kEdge;

// c (m x n) = alpha * a (m x k) * b (k x n) + beta * c.
template <typename T>
__device__ __forceinline__ void gemm(T (*tile_a)[kTile + 1], T (*tile_b)[kTile + 1], const T* a,
                                     const T* b, T* c, int m, int n, int k, int stride_a,
                                     int stride_b, int stride_c, int transpose_a, int transpose_b,
                                     T alpha, T beta) {
  const int thread = threadIdx.y * kEdge + threadIdx.x;
  const int row = blockIdx.y * kTile;
  const int column = blockIdx.x * kTile;
  T sums[kEach][kEach] = {};
  for (int begin = 0; begin < k; begin += kDepth) {
    for (int i = thread; i < kTile * kDepth; i += kEdge * kEdge) {
      // Neighbouring threads read neighbouring elements of memory.
      const int depth_a = transpose_a == 0 ? i % kDepth : i / kTile;
      const int row_a = transpose_a == 0 ? i / kDepth : i % kTile;
      tile_a[depth_a][row_a] =
          operand(a, stride_a, transpose_a, m, k, row + row_a, begin + depth_a);
      const int depth_b = transpose_b == 0 ? i / kTile : i % kDepth;
      const int column_b = transpose_b == 0 ? i % kTile : i / kDepth;
      tile_b[depth_b][column_b] =
          operand(b, stride_b, transpose_b, k, n, begin + depth_b, column + column_b);
    }
    __syncthreads();
    for (int depth = 0; depth < kDepth; ++depth) {
      for (int i = 0; i < kEach; ++i) {
        const T left = tile_a[depth][threadIdx.y + i * kEdge];
        for (int j = 0; j < kEach; ++j) {
          sums[i][j] = add(sums[i][j], multiply(left, tile_b[depth][threadIdx.x + j * kEdge]));
        }
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kEach; ++i) {
    for (int j = 0; j < kEach; ++j) {
      const int y = row + threadIdx.y + i * kEdge;
      const int x = column + threadIdx.x + j * kEdge;
      if (y < m && x < n) {
        blend(alpha, sums[i][j], beta, &c[static_cast<size_t>(y) * stride_c + x]);
      }
    }
  }
}

constexpr int kLanes = 8;  // that share a row

// y = alpha * a * x + beta * y, with a of m rows and n columns as it lies there. Launch with 256
// threads, and any number of blocks.
template <typename T>
__device__ __forceinline__ void gemv(T* partial, const T* a, const T* x, T* y, int m, int n,
                                     int stride_a, int transpose_a, T alpha, T beta) {
  if (transpose_a != 0) {
    // A column for each thread.
    for (int column = blockIdx.x * blockDim.x + threadIdx.x; column < n;
         column += gridDim.x * blockDim.x) {
      T sum = {};
      for (int row = 0; row < m; ++row) {
        const T value = a[static_cast<size_t>(row) * stride_a + column];
        sum = add(sum, multiply(transpose_a == 2 ? conjugate(value) : value, x[row]));
      }
      blend(alpha, sum, beta, &y[column]);
    }
    return;
  }
  const int rows = blockDim.x / kLanes;
  const int lane = threadIdx.x % kLanes;
  for (int begin = blockIdx.x * rows; begin < m; begin += gridDim.x * rows) {
    const int row = begin + threadIdx.x / kLanes;
    T sum = {};
    if (row < m) {
      for (int column = lane; column < n; column += kLanes) {
        sum = add(sum, multiply(a[static_cast<size_t>(row) * stride_a + column], x[column]));
      }
    }
    partial[threadIdx.x] = sum;
    __syncthreads();
    if (lane == 0 && row < m) {
      for (int i = 1; i < kLanes; ++i) sum = add(sum, partial[threadIdx.x + i]);
      blend(alpha, sum, beta, &y[row]);
    }
    __syncthreads();
  }
}

// y = alpha * x + y. Any number of threads and blocks.
template <typename T>
__device__ __forceinline__ void axpy(int n, T alpha, const T* x, T* y) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    y[i] = add(multiply(alpha, x[i]), y[i]);
  }
}

}  // namespace

// GEMM is launched with (16, 16) threads and (ceil(n / 64), ceil(m / 64)) blocks. Shared memory is
// of the numbers that an element is made of.
#define LAMBENT_BLAS(letter, T, Number)                                                           \
  extern "C" __global__ void letter##gemm(const T* a, const T* b, T* c, int m, int n, int k,      \
                                          int stride_a, int stride_b, int stride_c,               \
                                          int transpose_a, int transpose_b, T alpha, T beta) {    \
    __shared__ __align__(16) Number tile_a[kDepth * (kTile + 1) * (sizeof(T) / sizeof(Number))];  \
    __shared__ __align__(16) Number tile_b[kDepth * (kTile + 1) * (sizeof(T) / sizeof(Number))];  \
    gemm<T>(reinterpret_cast<T(*)[kTile + 1]>(tile_a), reinterpret_cast<T(*)[kTile + 1]>(tile_b), \
            a, b, c, m, n, k, stride_a, stride_b, stride_c, transpose_a, transpose_b, alpha,      \
            beta);                                                                                \
  }                                                                                               \
  extern "C" __global__ void letter##gemv(const T* a, const T* x, T* y, int m, int n,             \
                                          int stride_a, int transpose_a, T alpha, T beta) {       \
    __shared__ __align__(16) Number partial[256 * (sizeof(T) / sizeof(Number))];                  \
    gemv<T>(reinterpret_cast<T*>(partial), a, x, y, m, n, stride_a, transpose_a, alpha, beta);    \
  }                                                                                               \
  extern "C" __global__ void letter##axpy(int n, T alpha, const T* x, T* y) {                     \
    axpy<T>(n, alpha, x, y);                                                                      \
  }                                                                                               \
  static_assert(true, "")

LAMBENT_BLAS(s, float, float);
LAMBENT_BLAS(d, double, double);
LAMBENT_BLAS(c, Complex, float);

// How long they take on the modelled device: as long as a V100 needs, which does 12, 6 and 5.1
// million million operations a second in a GEMM and reads 750 GB a second, but 4 us at least.
#define LAMBENT_BLAS_DURATIONS(letter, T, operations, per_us)                                    \
  LAMBENT_KERNEL_DURATION(letter##gemm, [](dim3, dim3, const T*, const T*, T*, int m, int n,     \
                                           int k, int, int, int, int, int, T, T) {               \
    return static_cast<uint64_t>(4000 + 1e3 * operations * m * n * k / per_us);                  \
  });                                                                                            \
  LAMBENT_KERNEL_DURATION(letter##gemv,                                                          \
                          [](dim3, dim3, const T*, const T*, T*, int m, int n, int, int, T, T) { \
                            return static_cast<uint64_t>(4000 + 1.0 * sizeof(T) * m * n / 750);  \
                          });                                                                    \
  LAMBENT_KERNEL_DURATION(letter##axpy, [](dim3, dim3, int n, T, const T*, T*) {                 \
    return static_cast<uint64_t>(4000 + 3.0 * sizeof(T) * n / 750);                              \
  });                                                                                            \
  LAMBENT_KERNEL(letter##gemm);                                                                  \
  LAMBENT_KERNEL(letter##gemv);                                                                  \
  LAMBENT_KERNEL(letter##axpy)

LAMBENT_BLAS_DURATIONS(s, float, 2, 12e6);
LAMBENT_BLAS_DURATIONS(d, double, 2, 6e6);
LAMBENT_BLAS_DURATIONS(c, Complex, 8, 5.1e6);
