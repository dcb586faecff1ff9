// Chunks in page-locked memory over three streams, each followed by a call of the host, with RAII
// and exceptions around the runtime.
#include <cuda_runtime.h>
#include <atomic>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
static void check(cudaError_t e, const char* what) {
  if (e != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorName(e));
}
#define CU(x) check((x), #x)
struct Job {
  int id;
  int* host;
  int n;
  std::atomic<int>* done;
  long sum;
};
__global__ void addOne(int* p, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) p[i] += 1;
}
static void CUDART_CB on_done(void* user) {
  auto* j = static_cast<Job*>(user);
  for (int i = 0; i < j->n; ++i) j->sum += j->host[i];
  j->done->fetch_add(1);
}
static void CUDART_CB legacy(cudaStream_t s, cudaError_t status, void* user) {
  if (status == cudaSuccess) static_cast<Job*>(user)->done->fetch_add(100);
}
class Stream {
  cudaStream_t s_;

 public:
  Stream() { CU(cudaStreamCreateWithFlags(&s_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(s_); }
  Stream(const Stream&) = delete;
  operator cudaStream_t() const { return s_; }
};
template <typename T>
struct Pinned {
  T* p;
  explicit Pinned(size_t n) { CU(cudaHostAlloc(&p, n * sizeof(T), cudaHostAllocDefault)); }
  ~Pinned() { cudaFreeHost(p); }
  T* get() { return p; }
};
int main() try {
  constexpr int kStreams = 3, kN = 10000;
  std::atomic<int> done{0};
  Stream streams[kStreams];
  Job jobs[kStreams];
  std::unique_ptr<Pinned<int>> host[kStreams];
  int* dev[kStreams];
  for (int i = 0; i < kStreams; ++i) {
    host[i].reset(new Pinned<int>(kN));
    CU(cudaMalloc(&dev[i], kN * sizeof(int)));
    for (int k = 0; k < kN; ++k) host[i]->get()[k] = i;
    jobs[i] = {i, host[i]->get(), kN, &done, 0};
    CU(cudaMemcpyAsync(dev[i], host[i]->get(), kN * sizeof(int), cudaMemcpyHostToDevice,
                       streams[i]));
    addOne<<<8, 128, 0, streams[i]>>>(dev[i], kN);
    CU(cudaPeekAtLastError());
    CU(cudaMemcpyAsync(host[i]->get(), dev[i], kN * sizeof(int), cudaMemcpyDeviceToHost,
                       streams[i]));
    CU(cudaLaunchHostFunc(streams[i], on_done, &jobs[i]));
    CU(cudaStreamAddCallback(streams[i], legacy, &jobs[i], 0));
  }
  for (auto& s : streams) CU(cudaStreamSynchronize(s));
  if (done != 303) {
    std::cerr << "done " << done << "\n";
    return 1;
  }
  for (auto& j : jobs)
    if (j.sum != long(j.id + 1) * kN) {
      std::cerr << "sum " << j.sum << "\n";
      return 1;
    }
  std::cout << "ok" << std::endl;
  return 0;
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 2;
}
