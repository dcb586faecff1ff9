// Exclusive prefix sums: within blocks up and down a tree, then over the blocks' totals.
constexpr int kBlockItems = 256;

__global__ void scan_block(const int* input, int* output, int* totals, int count) {
  __shared__ int tree[kBlockItems];
  const int thread = threadIdx.x, first = blockIdx.x * kBlockItems;
  for (int i = thread; i < kBlockItems; i += blockDim.x) {
    tree[i] = first + i < count ? input[first + i] : 0;
  }
  int stride = 1;
  for (int active = kBlockItems / 2; active > 0; active /= 2, stride *= 2) {
    __syncthreads();
    if (thread < active) {
      tree[stride * (2 * thread + 2) - 1] += tree[stride * (2 * thread + 1) - 1];
    }
  }
  __syncthreads();
  if (thread == 0) {
    if (totals) totals[blockIdx.x] = tree[kBlockItems - 1];
    tree[kBlockItems - 1] = 0;
  }
  for (int active = 1; active < kBlockItems; active *= 2) {
    stride /= 2;
    __syncthreads();
    if (thread < active) {
      const int left = stride * (2 * thread + 1) - 1, right = stride * (2 * thread + 2) - 1;
      const int kept = tree[left];
      tree[left] = tree[right];
      tree[right] += kept;
    }
  }
  __syncthreads();
  for (int i = thread; i < kBlockItems; i += blockDim.x) {
    if (first + i < count) output[first + i] = tree[i];
  }
}

__global__ void add_totals(int* output, const int* offsets, int count) {
  const int i = blockIdx.x * kBlockItems + threadIdx.x;
  if (i < count) output[i] += offsets[blockIdx.x];
}

#ifdef __CUDACC__
#include "program.h"

int main() {
  const int count = 20'000, blocks = (count + kBlockItems - 1) / kBlockItems;
  unsigned seed = 4;
  std::vector<int> values(count);
  for (auto& value : values) value = next_random(&seed) % 10;
  int *device = upload(values), *output = nullptr, *totals = nullptr, *offsets = nullptr;
  OK(cudaMalloc(&output, count * sizeof(int)));
  OK(cudaMalloc(&totals, blocks * sizeof(int)));
  OK(cudaMalloc(&offsets, blocks * sizeof(int)));
  EXPECT(blocks <= kBlockItems);
  scan_block<<<blocks, kBlockItems / 2>>>(device, output, totals, count);
  LAUNCHED();
  scan_block<<<1, kBlockItems / 2>>>(totals, offsets, nullptr, blocks);
  LAUNCHED();
  add_totals<<<blocks, kBlockItems>>>(output, offsets, count);
  LAUNCHED();
  const auto result = download(output, count);
  int sum = 0;
  for (int i = 0; i < count; sum += values[i++]) EXPECT(result[i] == sum);
  std::puts("ok");
}
#endif
