// A stand-in for libcublas.so on machines without a GPU: the functions that Lambent uses of it, by
// their names, computing with the kernels of kernels/testing/column_major.cu, which lie beside it,
// on the stream that they are given. Like the real one it keeps what it may not lose in the
// workspace: products are made in two parts whose sums lie there.
//
// CUBLAS_DOUBLE_LOG names a file that gets a line for each routine: its name, m, n, k, the
// operands' ways, and "captured" where the stream is captured. CUBLAS_DOUBLE_FAIL is "SYMBOL CALL
// STATUS": what that function answers from that call of it on, the first being 1.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>

#include "core/base/fd.h"
#include "gpu/cublas/library.h"
#include "gpu/cuda/device.h"
#include "gpu/cuda/graph.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace lambent::cublas {

struct RawContext {
  std::unique_ptr<cuda::Driver> driver;
  std::unique_ptr<cuda::Module> kernels;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  char* workspace = nullptr;
  size_t workspace_bytes = 0;
  std::atomic<bool> is_used = false;  // one thread at a time
};

namespace {

constexpr int kParts = 2;
constexpr unsigned kThreads = 64;

// Whether this call has to fail, and with what.
int failure_of(const char* symbol) {
  static std::mutex mutex;
  static std::map<std::string, int> calls;
  const std::lock_guard lock(mutex);
  const int call = ++calls[symbol];
  const char* plan = std::getenv("CUBLAS_DOUBLE_FAIL");
  std::istringstream words(plan != nullptr ? plan : "");
  std::string name;
  int from = 0, status = 0;
  words >> name >> from >> status;
  return name == symbol && call >= from ? status : kSuccess;
}

// A use of a handle: by one thread, in the context that it was made in.
class Use {
 public:
  explicit Use(RawHandle handle) : handle_(*handle) {
    CUcontext current = nullptr;
    (*handle_.driver)->ctx_get_current(&current);
    if (handle_.is_used.exchange(true) || current != handle_.context) {
      std::fprintf(stderr, "cublas_double: a handle is used by two threads, or where it is not\n");
      std::abort();
    }
  }
  ~Use() { handle_.is_used = false; }

 private:
  RawContext& handle_;
};

void log(RawHandle handle, const std::string& text) {
  const char* path = std::getenv("CUBLAS_DOUBLE_LOG");
  if (path == nullptr) return;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  (*handle->driver)->stream_is_capturing(handle->stream, &status);
  std::ofstream(path, std::ios::app)
      << text << (status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? " captured" : "") << "\n";
}

template <typename... Numbers>
std::string line(const std::string& name, Numbers... numbers) {
  std::string text = name;
  ((text += " " + std::to_string(numbers)), ...);
  return text;
}

template <typename... Arguments>
int launch(RawHandle handle, const std::string& name, long threads, unsigned rows,
           Arguments... arguments) {
  const auto function = handle->kernels->function(name);
  if (!function.ok()) return kArchitectureMismatch;
  void* parameters[] = {&arguments...};
  cuda::KernelNode node;
  node.function = *function;
  node.grid = {static_cast<unsigned>((threads + kThreads - 1) / kThreads), rows, 1};
  node.block = {kThreads, 1, 1};
  node.parameters = parameters;
  const auto launched = cuda::launch(*handle->driver, node, handle->stream);
  if (launched.ok()) return kSuccess;
  std::fprintf(stderr, "cublas_double: %s\n", to_string(launched.error()).c_str());
  return kExecutionFailed;
}

// Of the file beside this library.
Result<std::string> kernels_image() {
  Dl_info self{};
  dladdr(reinterpret_cast<const void*>(&failure_of), &self);
  const std::string path = self.dli_fname != nullptr ? self.dli_fname : "";
  return read_file(path.substr(0, path.rfind('/') + 1) + "column_major.so", size_t{1} << 28);
}

bool is_way(int how) { return how >= 0 && how <= 2; }

template <typename T>
int gemm(RawHandle handle, char letter, int how_a, int how_b, int m, int n, int k, const T* alpha,
         const T* a, int stride_a, const T* b, int stride_b, const T* beta, T* c, int stride_c) {
  const Use use(handle);
  const std::string name = letter + std::string("gemm");
  log(handle, line(name, m, n, k, how_a, how_b));
  const bool fits = is_way(how_a) && is_way(how_b) && m > 0 && n > 0 && k > 0 &&
                    stride_a >= (how_a == 0 ? m : k) && stride_b >= (how_b == 0 ? k : n) &&
                    stride_c >= m && a != nullptr && b != nullptr && c != nullptr;
  if (!fits) return kInvalidValue;
  const long elements = static_cast<long>(m) * n;
  const size_t needed = kParts * static_cast<size_t>(elements) * sizeof(T);
  if (handle->workspace == nullptr || handle->workspace_bytes < needed) return kAllocationFailed;
  T* sums = reinterpret_cast<T*>(handle->workspace);
  const int status = launch(handle, name + "_sums", elements, kParts, sums, a, b, m, n, k, stride_a,
                            stride_b, how_a, how_b);
  if (status != kSuccess) return status;
  return launch(handle, name + "_end", elements, 1, c, sums, kParts, m, n, stride_c, *alpha, *beta);
}

template <typename T>
int gemv(RawHandle handle, char letter, int how, int m, int n, const T* alpha, const T* a,
         int stride_a, const T* x, int step_x, const T* beta, T* y, int step_y) {
  const Use use(handle);
  const std::string name = letter + std::string("gemv");
  log(handle, line(name, m, n, how));
  if (!is_way(how) || m <= 0 || n <= 0 || stride_a < m || step_x != 1 || step_y != 1) {
    return kInvalidValue;
  }
  return launch(handle, name, how == 0 ? m : n, 1, a, x, y, m, n, stride_a, how, *alpha, *beta);
}

template <typename T>
int axpy(RawHandle handle, char letter, int n, const T* alpha, const T* x, int step_x, T* y,
         int step_y) {
  const Use use(handle);
  const std::string name = letter + std::string("axpy");
  log(handle, line(name, n));
  if (n <= 0 || step_x != 1 || step_y != 1) return kInvalidValue;
  // What the real one launches depends on how its operands are aligned, too.
  const bool is_aligned =
      (reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y)) % 16 == 0;
  const int first = is_aligned || n == 1 ? n : 1;
  const int status = launch(handle, name, first, 1, first, *alpha, x, y);
  if (status != kSuccess || first == n) return status;
  return launch(handle, name, n - first, 1, n - first, *alpha, x + first, y + first);
}

}  // namespace
}  // namespace lambent::cublas

using namespace lambent;
using namespace lambent::cublas;

EXPORTED int cublasCreate_v2(RawHandle* out) {
  if (const int status = failure_of("cublasCreate_v2")) return status;
  auto driver = cuda::Driver::load();
  auto image = kernels_image();
  if (!driver.ok() || !image.ok()) return kNotInitialized;
  auto handle = std::make_unique<RawContext>();
  handle->driver = std::move(*driver);
  auto kernels = cuda::Module::load(*handle->driver, *image);
  if (!kernels.ok()) return kArchitectureMismatch;
  handle->kernels = std::make_unique<cuda::Module>(std::move(*kernels));
  (*handle->driver)->ctx_get_current(&handle->context);
  *out = handle.release();
  return kSuccess;
}

EXPORTED int cublasDestroy_v2(RawHandle handle) {
  { const Use use(handle); }
  delete handle;
  return kSuccess;
}

EXPORTED int cublasGetVersion_v2(RawHandle, int* version) {
  *version = 130002;
  return kSuccess;
}

EXPORTED int cublasSetStream_v2(RawHandle handle, CUstream stream) {
  handle->stream = stream;
  handle->workspace = nullptr;
  handle->workspace_bytes = 0;
  return kSuccess;
}

EXPORTED int cublasSetWorkspace_v2(RawHandle handle, void* workspace, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(workspace) % 256 != 0) return kInvalidValue;
  handle->workspace = static_cast<char*>(workspace);
  handle->workspace_bytes = bytes;
  return kSuccess;
}

EXPORTED int cublasSetPointerMode_v2(RawHandle, int mode) {
  return mode == 0 ? kSuccess : kNotSupported;
}
EXPORTED int cublasSetAtomicsMode(RawHandle, int mode) {
  return mode == 0 ? kSuccess : kNotSupported;
}
EXPORTED int cublasSetMathMode(RawHandle, int mode) { return mode == 0 ? kSuccess : kNotSupported; }

#define ROUTINES(letter, Letter, T)                                                              \
  EXPORTED int cublas##Letter##gemm_v2(                                                          \
      RawHandle handle, int how_a, int how_b, int m, int n, int k, const T* alpha, const T* a,   \
      int stride_a, const T* b, int stride_b, const T* beta, T* c, int stride_c) {               \
    if (const int status = failure_of("cublas" #Letter "gemm_v2")) return status;                \
    return gemm(handle, letter, how_a, how_b, m, n, k, alpha, a, stride_a, b, stride_b, beta, c, \
                stride_c);                                                                       \
  }                                                                                              \
  EXPORTED int cublas##Letter##gemv_v2(RawHandle handle, int how, int m, int n, const T* alpha,  \
                                       const T* a, int stride_a, const T* x, int step_x,         \
                                       const T* beta, T* y, int step_y) {                        \
    if (const int status = failure_of("cublas" #Letter "gemv_v2")) return status;                \
    return gemv(handle, letter, how, m, n, alpha, a, stride_a, x, step_x, beta, y, step_y);      \
  }                                                                                              \
  EXPORTED int cublas##Letter##axpy_v2(RawHandle handle, int n, const T* alpha, const T* x,      \
                                       int step_x, T* y, int step_y) {                           \
    if (const int status = failure_of("cublas" #Letter "axpy_v2")) return status;                \
    return axpy(handle, letter, n, alpha, x, step_x, y, step_y);                                 \
  }

ROUTINES('s', S, float)
ROUTINES('d', D, double)
ROUTINES('c', C, Complex)
