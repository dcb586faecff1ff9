// Products of small matrices by warps (nvcuda::wmma): all shapes and types, by rows and by columns,
// several warps in a block, fragments changed element by element; against sums on the host.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include "program.h"

using namespace nvcuda;

// Each warp makes one tile of c = alpha a b + beta c, where a has rows and b has columns behind
// each other.
__global__ void product(const half* a, const half* b, float* c, int m, int n, int k, float alpha,
                        float beta) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize * 16;
  const int column = (blockIdx.y * blockDim.y + threadIdx.y) * 16;
  if (row >= m || column >= n) return;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum, before;
  wmma::fill_fragment(sum, 0.0f);
  for (int i = 0; i < k; i += 16) {
    wmma::load_matrix_sync(left, a + row * k + i, k);
    wmma::load_matrix_sync(right, b + column * k + i, k);
    wmma::mma_sync(sum, left, right, sum);
  }
  wmma::load_matrix_sync(before, c + row * n + column, n, wmma::mem_row_major);
  for (int i = 0; i < sum.num_elements; ++i) before.x[i] = alpha * sum.x[i] + beta * before.x[i];
  wmma::store_matrix_sync(c + row * n + column, before, n, wmma::mem_row_major);
}

// One tile of a shape, by way of shared memory; a by columns, b by rows, the sum by columns.
template <int M, int N, int K, typename T, typename Stored, typename Sum>
__global__ void tile(const Stored* a, const Stored* b, Sum* c) {
  __shared__ Sum sums[M * N];
  wmma::fragment<wmma::matrix_a, M, N, K, T, wmma::col_major> left;
  wmma::fragment<wmma::matrix_b, M, N, K, T, wmma::row_major> right;
  wmma::fragment<wmma::accumulator, M, N, K, Sum> sum;
  wmma::fill_fragment(sum, static_cast<Sum>(1.0f));
  wmma::load_matrix_sync(left, a, M);
  wmma::load_matrix_sync(right, b, N);
  wmma::mma_sync(sum, left, right, sum);
  wmma::store_matrix_sync(sums, sum, M, wmma::mem_col_major);
  __syncwarp();
  for (int i = threadIdx.x; i < M * N; i += 32) c[i] = sums[i];
}

template <int M, int N, int K, typename T, typename Stored, typename Sum>
void check_tile(int most) {
  unsigned state = M * 31 + N;
  std::vector<Stored> a(M * K), b(K * N);
  std::vector<double> whole_a(M * K), whole_b(K * N);
  for (int i = 0; i < M * K; ++i) {
    whole_a[i] = static_cast<int>(next_random(&state) % most);
    a[i] = static_cast<Stored>(static_cast<float>(whole_a[i]));
  }
  for (int i = 0; i < K * N; ++i) {
    whole_b[i] = static_cast<int>(next_random(&state) % most);
    b[i] = static_cast<Stored>(static_cast<float>(whole_b[i]));
  }
  Stored *device_a = upload(a), *device_b = upload(b);
  Sum* device_c = nullptr;
  OK(cudaMalloc(&device_c, M * N * sizeof(Sum)));
  tile<M, N, K, T, Stored, Sum><<<1, 32>>>(device_a, device_b, device_c);
  LAUNCHED();
  const auto c = download(device_c, M * N);
  for (int row = 0; row < M; ++row) {
    for (int column = 0; column < N; ++column) {
      double sum = 1;
      for (int i = 0; i < K; ++i) sum += whole_a[i * M + row] * whole_b[i * N + column];
      EXPECT(static_cast<double>(static_cast<float>(c[column * M + row])) == sum);
    }
  }
  OK(cudaFree(device_a));
  OK(cudaFree(device_b));
  OK(cudaFree(device_c));
}

int main() {
  const int m = 48, n = 64, k = 32;
  unsigned state = 11;
  std::vector<half> a(m * k), b(k * n);
  std::vector<float> c(m * n);
  for (half& each : a) each = __float2half(random_float(&state) - 0.5f);
  for (half& each : b) each = __float2half(random_float(&state) - 0.5f);
  for (float& each : c) each = random_float(&state);
  half *device_a = upload(a), *device_b = upload(b);
  float* device_c = upload(c);
  // Two warps side by side in x, two in y.
  product<<<dim3(2, 2), dim3(64, 2)>>>(device_a, device_b, device_c, m, n, k, 2.0f, 0.5f);
  LAUNCHED();
  const auto found = download(device_c, c.size());
  for (int row = 0; row < m; ++row) {
    for (int column = 0; column < n; ++column) {
      double sum = 0;
      for (int i = 0; i < k; ++i) {
        sum += static_cast<double>(__half2float(a[row * k + i])) *
               static_cast<double>(__half2float(b[column * k + i]));
      }
      EXPECT(close_to(found[row * n + column], 2 * sum + 0.5 * c[row * n + column], 1e-5));
    }
  }
  OK(cudaFree(device_a));
  OK(cudaFree(device_b));
  OK(cudaFree(device_c));

  check_tile<16, 16, 16, half, half, float>(20);
  check_tile<32, 8, 16, half, half, half>(8);
  check_tile<8, 32, 16, __nv_bfloat16, __nv_bfloat16, float>(30);
  check_tile<16, 16, 16, signed char, signed char, int>(120);
  check_tile<32, 8, 16, unsigned char, unsigned char, int>(250);
  check_tile<16, 16, 8, wmma::precision::tf32, float, float>(1000);
  check_tile<8, 8, 4, double, double, double>(1000);
  std::puts("ok");
  return 0;
}
