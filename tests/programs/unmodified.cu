// Host code and kernels as their authors mix them, with nothing hidden from the host compiler:
// launches in macros, lambdas and members and through pointers, kernels without external names, and
// texts that look like launches.
#include <cstdio>
#include <functional>
#include <string>
#define LAUNCH(k, ...)               \
  do {                               \
    k<<<grid, block>>>(__VA_ARGS__); \
  } while (0)
/* kernel<<<1,1>>>() in comment */
static const char* text = "kernel<<<1, 2>>>(x); // \" \\";
static const char* raw = R"(kernel<<<1, 2>>>(x) " )";
constexpr int big = 1'000'000;
extern "C" __global__ void plain(int* p, int v) { p[threadIdx.x] = v; }
template <typename T>
static inline __global__ void tmpl(T* p, T v) {
  p[threadIdx.x] = v;
}
typedef void (*kfn)(int*, int);
namespace detail {
namespace {
__device__ int hidden = 9;
__global__ void read_hidden(int* o) { *o = hidden; }
struct Impl {
  int v;
};
__global__ void impl(Impl i, int* o) { *o = i.v; }
}  // namespace
}  // namespace detail
class Runner {
  int* p_;

 public:
  explicit Runner(int* p) : p_(p) {}
  template <int B>
  void go(int v) const {
    tmpl<int><<<1, B>>>(p_, v);
  }
  static int bits(int a) { return a << 3 >> 1; }
};
struct Global {
  Global() { cudaFree(0); }
  ~Global() {}
} global_instance;
int main() {
  int* p;
  cudaMallocManaged(&p, 256 * 4);
  dim3 grid(1), block(64);
  LAUNCH(plain, p, 3);
  cudaDeviceSynchronize();
  if (p[63] != 3) return puts("macro"), 1;
  kfn f = plain;
  f<<<grid, block>>>(p, 4);
  cudaDeviceSynchronize();
  if (p[63] != 4) return puts("pointer"), 1;
  auto l = [&](int v) {
    plain<<<dim3(1, 1, 1),
            /* a comment */ dim3(64)>>>(p, v);
  };
  l(5);
  cudaDeviceSynchronize();
  if (p[63] != 5) return puts("lambda"), 1;
  Runner r(p);
  r.go<32>(6);
  cudaDeviceSynchronize();
  if (p[31] != 6) return puts("member"), 1;
  tmpl<<<1, 8>>>(p, 7);
  tmpl<float><<<1, 8, 0, nullptr>>>((float*)p + 64, 1.5f);
  cudaDeviceSynchronize();
  if (p[7] != 7 || ((float*)p)[64] != 1.5f) return puts("deduced"), 1;
  std::function<void()> fn = [p] {
    detail::read_hidden<<<1, 1>>>(p);
    detail::impl<<<1, 1>>>(detail::Impl{12}, p + 1);
  };
  fn();
  cudaDeviceSynchronize();
  if (p[0] != 9 || p[1] != 12) return printf("anon %d %d\n", p[0], p[1]), 1;
  int v = 10;
  cudaMemcpyToSymbol(detail::hidden, &v, 4);
  fn();
  cudaDeviceSynchronize();
  if (p[0] != 10) return puts("symbol"), 1;
  cudaFuncAttributes a;
  if (cudaFuncGetAttributes(&a, tmpl<float>)) return puts("attr"), 1;
  void (*ks[])(int*, int) = {plain, tmpl<int>};
  for (auto k : ks) k<<<1, 1>>>(p, Runner::bits(4));
  cudaDeviceSynchronize();
  if (p[0] != 16) return puts("array"), 1;
  if (cudaError_t e = cudaGetLastError()) return printf("%s\n", cudaGetErrorString(e)), 1;
  puts(big == 1000000 && std::string(text).size() > 5 && raw ? "ok" : "no");
}
