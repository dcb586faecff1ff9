// A histogram of bytes: counted with atomics in shared memory, then added up in global memory.
constexpr int kBins = 256;

__global__ void histogram(const unsigned char* bytes, int count, unsigned* bins) {
  __shared__ unsigned mine[kBins];
  for (int i = threadIdx.x; i < kBins; i += blockDim.x) mine[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    atomicAdd(&mine[bytes[i]], 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kBins; i += blockDim.x) atomicAdd(&bins[i], mine[i]);
}

#ifdef __CUDACC__
#include "program.h"

int main() {
  const int count = 100'000;
  unsigned seed = 5;
  std::vector<unsigned char> bytes(count);
  std::vector<unsigned> expected(kBins, 0);
  for (auto& byte : bytes) ++expected[byte = next_random(&seed) % 200];
  unsigned char* device = upload(bytes);
  unsigned* bins = nullptr;
  OK(cudaMalloc(&bins, kBins * sizeof(unsigned)));
  OK(cudaMemset(bins, 0, kBins * sizeof(unsigned)));
  histogram<<<8, 128>>>(device, count, bins);
  LAUNCHED();
  EXPECT(download(bins, kBins) == expected);
  std::puts("ok");
}
#endif
