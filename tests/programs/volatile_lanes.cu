// The lanes of a warp hand values to each other through volatile memory, without a barrier between
// them, as textbooks have it: in shared memory, in global memory, and in a function of their own.
#include "program.h"

template <typename T>
__device__ void last_sums(volatile T* tile, unsigned lane) {
  tile[lane] += tile[lane + 32];
  tile[lane] += tile[lane + 16];
  tile[lane] += tile[lane + 8];
  tile[lane] += tile[lane + 4];
  tile[lane] += tile[lane + 2];
  tile[lane] += tile[lane + 1];
}

template <typename T>
__global__ void shared_sums(const T* in, T* out) {
  extern __shared__ float memory[];
  T* tile = reinterpret_cast<T*>(memory);
  const unsigned i = threadIdx.x;
  tile[i] = in[blockIdx.x * blockDim.x + i];
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 32; half /= 2) {
    if (i < half) tile[i] += tile[i + half];
    __syncthreads();
  }
  if (i < 32) last_sums(tile, i);
  if (i == 0) out[blockIdx.x] = tile[0];
}

// In place, as the array lies in global memory.
__global__ void global_sums(int* values, int* out) {
  int* own = values + blockIdx.x * blockDim.x;
  if (threadIdx.x < 32) {
    volatile int* last = own;
    last[threadIdx.x] += last[threadIdx.x + 32];
    last[threadIdx.x] += last[threadIdx.x + 16];
    last[threadIdx.x] += last[threadIdx.x + 8];
    last[threadIdx.x] += last[threadIdx.x + 4];
    last[threadIdx.x] += last[threadIdx.x + 2];
    last[threadIdx.x] += last[threadIdx.x + 1];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = own[0];
}

// A scan of each warp.
__global__ void scans(const int* in, int* out) {
  __shared__ volatile int sums[64];
  const unsigned lane = threadIdx.x;
  sums[lane] = 0;
  const unsigned at = lane + 32;
  sums[at] = in[lane];
  for (unsigned step = 1; step < 32; step *= 2) sums[at] += sums[at - step];
  out[lane] = sums[at];
}

// Plain stores between volatile loads: all lanes have loaded before one stores, and the other way.
__global__ void turns(int* out) {
  __shared__ int plain[32];
  volatile int* seen = plain;
  const unsigned lane = threadIdx.x;
  const int before = seen[lane];
  plain[lane] = lane;
  __threadfence_block();
  const int next = seen[(lane + 1) % 32];
  plain[lane] = next + 1;
  __threadfence_block();
  out[lane] = seen[(lane + 2) % 32] + 0 * before;
}

int main() {
  constexpr int kBlocks = 5;
  unsigned state = 3;
  std::vector<int> values(kBlocks * 256);
  std::vector<float> numbers(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int>(next_random(&state) % 1000);
    numbers[i] = static_cast<float>(values[i]);
  }
  int *in = upload(values), *out = nullptr;
  float *from = upload(numbers), *to = nullptr;
  OK(cudaMalloc(&out, values.size() * sizeof(int)));
  OK(cudaMalloc(&to, numbers.size() * sizeof(float)));
  const auto sum_of = [&](int first, int count) {
    int sum = 0;
    for (int i = 0; i < count; ++i) sum += values[first + i];
    return sum;
  };

  shared_sums<<<kBlocks, 256, 256 * sizeof(int)>>>(in, out);
  LAUNCHED();
  shared_sums<<<kBlocks, 256, 256 * sizeof(float)>>>(from, to);
  LAUNCHED();
  const auto sums = download(out, kBlocks);
  const auto totals = download(to, kBlocks);
  for (int i = 0; i < kBlocks; ++i) {
    EXPECT(sums[i] == sum_of(i * 256, 256));
    EXPECT(totals[i] == static_cast<float>(sum_of(i * 256, 256)));
  }
  scans<<<1, 32>>>(in, out);
  LAUNCHED();
  const auto scanned = download(out, 32);
  for (int i = 0; i < 32; ++i) EXPECT(scanned[i] == sum_of(0, i + 1));
  global_sums<<<kBlocks * 4, 64>>>(in, out);
  LAUNCHED();
  const auto parts = download(out, kBlocks * 4);
  for (int i = 0; i < kBlocks * 4; ++i) EXPECT(parts[i] == sum_of(i * 64, 64));
  turns<<<1, 32>>>(out);
  LAUNCHED();
  const auto turned = download(out, 32);
  for (int i = 0; i < 32; ++i) EXPECT(turned[i] == (i + 3) % 32 + 1);
  OK(cudaFree(in));
  OK(cudaFree(out));
  OK(cudaFree(from));
  OK(cudaFree(to));
  std::puts("ok");
  return 0;
}
