// Templates of C++17 as kernels: packs, enumerations and functions as arguments, views of classes,
// and launches by the runtime's own functions.
#include <cuda_runtime.h>
#include <cstdio>
template <typename T, int N>
struct Numbers {
  T v[N];
  __host__ __device__ T operator[](int i) const { return v[i]; }
};
enum class Op { Add, Mul };
template <Op op, typename T>
__device__ constexpr T combine(T a, T b) {
  if constexpr (op == Op::Add)
    return a + b;
  else
    return a * b;
}
template <Op op, typename T, int... Is>
__global__ void k(Numbers<T, 4> v, T* out) {
  T acc = op == Op::Add ? 0 : 1;
  ((acc = combine<op>(acc, v[Is])), ...);
  out[threadIdx.x] = acc;
}
template <typename F, typename... A>
__global__ void generic(F f, A... a) {
  f(threadIdx.x, a...);
}
struct Store {
  template <typename T>
  __device__ void operator()(int i, T* p, T v) const {
    p[i] = v + i;
  }
};
template <auto Kernel, typename... A>
cudaError_t launch(dim3 g, dim3 b, cudaStream_t s, A... a) {
  void* args[] = {(void*)&a...};
  return cudaLaunchKernel((const void*)Kernel, g, b, args, 0, s);
}
__global__ void two(int* p, float f) { p[0] = (int)f; }
template <typename T>
class Matrix {
  T* d_ = nullptr;
  int n_;

 public:
  explicit Matrix(int n) : n_(n) { cudaMalloc(&d_, n * n * sizeof(T)); }
  ~Matrix() { cudaFree(d_); }
  struct View {
    T* p;
    int n;
    __device__ T& operator()(int i, int j) { return p[i * n + j]; }
  };
  View view() { return {d_, n_}; }
  T* data() { return d_; }
};
template <typename M>
__global__ void identity(M m) {
  m(threadIdx.y, threadIdx.x) = threadIdx.x == threadIdx.y;
}
int main() {
  double* o;
  cudaMallocManaged(&o, 64 * 8);
  Numbers<double, 4> v{{1, 2, 3, 4}};
  k<Op::Add, double, 0, 1, 2, 3><<<1, 1>>>(v, o);
  k<Op::Mul, double, 3, 2><<<1, 1>>>(v, o + 1);
  cudaDeviceSynchronize();
  if (o[0] != 10 || o[1] != 12) return printf("k %f %f\n", o[0], o[1]), 1;
  generic<<<1, 8>>>(Store{}, o, 5.0);
  cudaDeviceSynchronize();
  if (o[3] != 8) return printf("generic %f\n", o[3]), 1;
  int* p;
  cudaMallocManaged(&p, 4);
  if (launch<two>(1, 1, 0, p, 7.5f)) return puts("launch"), 1;
  cudaDeviceSynchronize();
  if (*p != 7) return printf("two %d\n", *p), 1;
  cudaLaunchConfig_t cfg = {};
  cfg.gridDim = 1;
  cfg.blockDim = 1;
  cudaError_t e = cudaLaunchKernelEx(&cfg, two, p, 9.5f);
  cudaDeviceSynchronize();
  if (e || *p != 9) return printf("ex %s %d\n", cudaGetErrorString(e), *p), 1;
  Matrix<float> m(8);
  identity<<<1, dim3(8, 8)>>>(m.view());
  float h[64];
  cudaMemcpy(h, m.data(), sizeof h, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 64; i++)
    if (h[i] != (i / 8 == i % 8)) return printf("identity\n"), 1;
  puts("ok");
}
