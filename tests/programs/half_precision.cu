// One tiled product in four precisions, arithmetic on pairs of halves, and a tile of structures in
// shared memory.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cmath>
#include <cstdio>
template <typename T>
struct Acc {
  using type = float;
};
template <typename T>
__global__ void gemm(const T* A, const T* B, T* C, int M, int N, int K) {
  constexpr int TS = 16;
  __shared__ T As[TS][TS], Bs[TS][TS + 1];
  int r = blockIdx.y * TS + threadIdx.y, c = blockIdx.x * TS + threadIdx.x;
  float acc = 0;
  for (int t = 0; t < K; t += TS) {
    As[threadIdx.y][threadIdx.x] =
        r < M && t + threadIdx.x < K ? A[r * K + t + threadIdx.x] : T(0.f);
    Bs[threadIdx.y][threadIdx.x] =
        c < N && t + threadIdx.y < K ? B[(t + threadIdx.y) * N + c] : T(0.f);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TS; k++) acc += float(As[threadIdx.y][k]) * float(Bs[k][threadIdx.x]);
    __syncthreads();
  }
  if (r < M && c < N) C[r * N + c] = T(acc);
}
__global__ void h2(const __half2* a, const __half2* b, __half2* c, int n) {
  int i = threadIdx.x;
  if (i < n) {
    __half2 x = __hfma2(a[i], b[i], __float2half2_rn(1.f));
    c[i] = __hmax2(x, h2exp(__hneg2(x)));
    if (__hlt(__low2half(x), __float2half(0.f)))
      c[i] = __halves2half2(__habs(__low2half(x)), hrsqrt(__high2half(x)));
  }
}
__global__ void tilef2(const float2* in, float2* out) {
  __shared__ float2 t[32][33];
  int x = threadIdx.x, y = threadIdx.y;
  t[y][x] = in[y * 32 + x];
  __syncthreads();
  out[y * 32 + x] = make_float2(t[x][y].y, t[x][y].x);
}
template <class T>
int test(const char* n) {
  const int M = 33, N = 20, K = 45;
  T *A, *B, *C;
  cudaMallocManaged(&A, M * K * sizeof(T));
  cudaMallocManaged(&B, K * N * sizeof(T));
  cudaMallocManaged(&C, M * N * sizeof(T));
  for (int i = 0; i < M * K; i++) A[i] = T(float(i % 5));
  for (int i = 0; i < K * N; i++) B[i] = T(float(i % 3) - 1.f);
  gemm<T><<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
  cudaError_t e = cudaDeviceSynchronize();
  if (e) return printf("%s\n", cudaGetErrorString(e)), 1;
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float s = 0;
      for (int k = 0; k < K; k++) s += float(A[i * K + k]) * float(B[k * N + j]);
      if (fabs(float(C[i * N + j]) - s) > 0.02f * fabs(s) + 1e-3)
        return printf("%s %d %d %f %f\n", n, i, j, float(C[i * N + j]), s), 1;
    }
  return 0;
}
int main() {
  int bad = test<__half>("half") + test<__nv_bfloat16>("bf16") + test<float>("float") +
            test<double>("double");
  __half2* a;
  cudaMallocManaged(&a, 3 * 32 * sizeof *a);
  for (int i = 0; i < 64; i++) a[i] = __floats2half2_rn(i * .1f, -1.f);
  h2<<<1, 32>>>(a, a + 32, a + 64, 32);
  cudaDeviceSynchronize();
  printf("%f %f\n", __low2float(a[64 + 3]), __high2float(a[64 + 3]));
  float2* f;
  cudaMallocManaged(&f, 2 * 1024 * sizeof *f);
  for (int i = 0; i < 1024; i++) f[i] = {(float)i, -(float)i};
  tilef2<<<1, dim3(32, 32)>>>(f, f + 1024);
  cudaDeviceSynchronize();
  if (f[1024 + 33 * 0 + 1].x != -32 || f[1024 + 1].y != 32) {
    puts("tilef2");
    bad++;
  }
  puts(bad ? "FAIL" : "ok");
  return bad;
}
