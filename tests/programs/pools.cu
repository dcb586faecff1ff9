// Memory allocated and freed in stream order, from the device's pool and from one of the program's
// own.
__global__ void fill(int* values, int count, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] = value;
}

#ifdef __CUDACC__
#include <cstdint>

#include "program.h"

int main() {
  const int count = 10'000;
  int supported = 0;
  OK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
  EXPECT(supported == 1);
  cudaMemPool_t pool, own;
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  uint64_t threshold = UINT64_MAX, used = 1;
  OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  std::vector<int> values(count);
  for (int round = 0; round < 5; ++round) {
    int* memory = nullptr;
    OK(cudaMallocAsync(&memory, count * sizeof(int), stream));
    fill<<<(count + 255) / 256, 256, 0, stream>>>(memory, count, round);
    LAUNCHED();
    OK(cudaMemcpyAsync(values.data(), memory, count * sizeof(int), cudaMemcpyDeviceToHost, stream));
    OK(cudaFreeAsync(memory, stream));
    OK(cudaStreamSynchronize(stream));
    for (int value : values) EXPECT(value == round);
  }
  OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT(used == 0);
  OK(cudaMemPoolTrimTo(pool, 0));

  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  OK(cudaMemPoolCreate(&own, &properties));
  int* memory = nullptr;
  OK(cudaMallocFromPoolAsync(&memory, count * sizeof(int), own, stream));
  OK(cudaMemsetAsync(memory, 0, count * sizeof(int), stream));
  OK(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT(used >= count * sizeof(int));
  cudaPointerAttributes attributes;
  OK(cudaPointerGetAttributes(&attributes, memory));
  EXPECT(attributes.type == cudaMemoryTypeDevice);
  OK(cudaFreeAsync(memory, stream));
  OK(cudaStreamSynchronize(stream));
  OK(cudaMemPoolDestroy(own));
  OK(cudaStreamDestroy(stream));
  std::puts("ok");
}
#endif
