// Sums, votes and sorting within warps.
__global__ void warp_sums(const int* values, int* sums, unsigned* even, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  int value = i < count ? values[i] : 0;
  const unsigned votes = __ballot_sync(0xffffffffu, value % 2 == 0);
  for (int offset = 16; offset > 0; offset /= 2)
    value += __shfl_down_sync(0xffffffffu, value, offset);
  if (threadIdx.x % 32 == 0) {
    sums[i / 32] = value;
    even[i / 32] = votes;
  }
}

// A bitonic network over the lanes of one warp.
__global__ void sort_warp(int* values) {
  const int lane = threadIdx.x;
  int mine = values[lane];
  for (int size = 2; size <= 32; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      const int other = __shfl_xor_sync(0xffffffffu, mine, stride);
      const bool ascending = (lane & size) == 0, lower = (lane & stride) == 0;
      mine = ascending == lower ? min(mine, other) : max(mine, other);
    }
  }
  values[lane] = mine;
}

#ifdef __CUDACC__
#include <algorithm>

#include "program.h"

int main() {
  const int warps = 40, count = 32 * warps;
  unsigned seed = 11;
  std::vector<int> values(count);
  for (auto& value : values) value = next_random(&seed) % 1000;
  int *device = upload(values), *sums = nullptr;
  unsigned* even = nullptr;
  OK(cudaMalloc(&sums, warps * sizeof(int)));
  OK(cudaMalloc(&even, warps * sizeof(unsigned)));
  warp_sums<<<warps / 8, 256>>>(device, sums, even, count);
  LAUNCHED();
  const auto found = download(sums, warps);
  const auto votes = download(even, warps);
  for (int warp = 0; warp < warps; ++warp) {
    int sum = 0;
    unsigned expected = 0;
    for (int lane = 0; lane < 32; ++lane) {
      const int value = values[32 * warp + lane];
      sum += value;
      if (value % 2 == 0) expected |= 1u << lane;
    }
    EXPECT(found[warp] == sum);
    EXPECT(votes[warp] == expected);
  }
  sort_warp<<<1, 32>>>(device);
  LAUNCHED();
  std::sort(values.begin(), values.begin() + 32);
  EXPECT(download(device, 32) == std::vector<int>(values.begin(), values.begin() + 32));
  std::puts("ok");
}
#endif
