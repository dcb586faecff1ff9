// Algorithms of CUB for the whole device: each says how much memory it needs, and then runs.
#include <cub/cub.cuh>

#include <algorithm>

#include "program.h"

struct IsOdd {
  __host__ __device__ bool operator()(int value) const { return (value & 1) != 0; }
};

template <typename Algorithm>
void run(Algorithm algorithm) {
  size_t bytes = 0;
  OK(algorithm(nullptr, bytes));
  void* memory = nullptr;
  OK(cudaMalloc(&memory, bytes));
  OK(algorithm(memory, bytes));
  OK(cudaDeviceSynchronize());
  OK(cudaFree(memory));
}

int main() {
  const int count = 10007;
  unsigned state = 5;
  std::vector<int> host(count);
  for (int& each : host) each = static_cast<int>(next_random(&state) % 4096);
  int *in, *out, *answer;
  OK(cudaMalloc(&in, count * sizeof(int)));
  OK(cudaMalloc(&out, count * sizeof(int)));
  OK(cudaMalloc(&answer, sizeof(int)));
  OK(cudaMemcpy(in, host.data(), count * sizeof(int), cudaMemcpyHostToDevice));
  const auto read = [&](const int* from, int numbers) {
    std::vector<int> copied(numbers);
    OK(cudaMemcpy(copied.data(), from, numbers * sizeof(int), cudaMemcpyDeviceToHost));
    return copied;
  };

  run([&](void* memory, size_t& bytes) {
    return cub::DeviceReduce::Max(memory, bytes, in, answer, count);
  });
  EXPECT(read(answer, 1)[0] == *std::max_element(host.begin(), host.end()));

  run([&](void* memory, size_t& bytes) {
    return cub::DeviceSelect::If(memory, bytes, in, out, answer, count, IsOdd());
  });
  std::vector<int> odd;
  std::copy_if(host.begin(), host.end(), std::back_inserter(odd), IsOdd());
  EXPECT(read(answer, 1)[0] == static_cast<int>(odd.size()));
  EXPECT(read(out, static_cast<int>(odd.size())) == odd);

  const int bins = 16;
  int* histogram;
  OK(cudaMalloc(&histogram, bins * sizeof(int)));
  run([&](void* memory, size_t& bytes) {
    return cub::DeviceHistogram::HistogramEven(memory, bytes, in, histogram, bins + 1, 0, 4096,
                                               count);
  });
  std::vector<int> expected(bins);
  for (const int each : host) ++expected[each * bins / 4096];
  EXPECT(read(histogram, bins) == expected);
  return 0;
}
