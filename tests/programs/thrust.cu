// Algorithms of Thrust on device_vectors, on memory of cudaMalloc and in a stream, beside a kernel
// of the program's own, against what the host computes.
#include <thrust/device_ptr.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "program.h"

__global__ void triple(int* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= 3;
}

int main() {
  const int count = 20011;
  unsigned state = 17;
  std::vector<int> host(count);
  for (int& each : host) each = static_cast<int>(next_random(&state) % 100000) - 50000;

  thrust::device_vector<int> numbers(host.begin(), host.end());
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  thrust::sort(thrust::cuda::par.on(stream), numbers.begin(), numbers.end());
  triple<<<(count + 255) / 256, 256, 0, stream>>>(thrust::raw_pointer_cast(numbers.data()), count);
  LAUNCHED();
  OK(cudaStreamSynchronize(stream));
  std::sort(host.begin(), host.end());
  for (int& each : host) each *= 3;
  EXPECT(std::vector<int>(numbers.begin(), numbers.end()) == host);

  EXPECT(thrust::reduce(numbers.begin(), numbers.end()) ==
         std::accumulate(host.begin(), host.end(), 0));

  int* memory = nullptr;
  OK(cudaMalloc(&memory, count * sizeof(int)));
  thrust::device_ptr<int> sums(memory);
  thrust::inclusive_scan(numbers.begin(), numbers.end(), sums);
  std::vector<int> copied(count), expected(count);
  std::partial_sum(host.begin(), host.end(), expected.begin());
  OK(cudaMemcpy(copied.data(), memory, count * sizeof(int), cudaMemcpyDeviceToHost));
  EXPECT(copied == expected);
  OK(cudaFree(memory));
  OK(cudaStreamDestroy(stream));
  return 0;
}
