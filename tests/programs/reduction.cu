// The sum of an array: a tree in dynamic shared memory, launched again on its own results, with the
// block size that the occupancy calculator proposes.
__global__ void sum_blocks(const float* values, float* sums, int count) {
  extern __shared__ float shared[];
  const int thread = threadIdx.x;
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + thread; i < count; i += gridDim.x * blockDim.x) {
    sum += values[i];
  }
  shared[thread] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (thread < half) shared[thread] += shared[thread + half];
    __syncthreads();
  }
  if (thread == 0) sums[blockIdx.x] = shared[0];
}

#ifdef __CUDACC__
#include "program.h"

int main() {
  const int count = 200'000;
  unsigned seed = 3;
  std::vector<float> values(count);
  double expected = 0;
  for (auto& value : values) expected += value = random_float(&seed);

  int least_blocks = 0, best_threads = 0;
  OK(cudaOccupancyMaxPotentialBlockSizeVariableSMem(
      &least_blocks, &best_threads, sum_blocks,
      [](int threads) { return threads * sizeof(float); }));
  EXPECT(least_blocks > 0);
  int threads = 32;
  while (threads * 2 <= best_threads && threads < 256)
    threads *= 2;  // the tree wants a power of two
  int resident = 0;
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, sum_blocks, threads,
                                                   threads * sizeof(float)));
  EXPECT(resident >= 1);

  const int blocks = 24;
  float *device = upload(values), *sums = nullptr;
  OK(cudaMalloc(&sums, (blocks + 1) * sizeof(float)));
  const size_t shared = threads * sizeof(float);
  sum_blocks<<<blocks, threads, shared>>>(device, sums, count);
  LAUNCHED();
  sum_blocks<<<1, threads, shared>>>(sums, sums + blocks, blocks);
  LAUNCHED();
  EXPECT(close_to(download(sums + blocks, 1)[0], expected, 1e-5));
  std::puts("ok");
}
#endif
