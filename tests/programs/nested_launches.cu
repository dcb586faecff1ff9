// Kernels that launch kernels: what they launch runs once they have ended, in the order of launches
// of a thread, and tail launches behind all of it.
#include "program.h"

__global__ void leaf(int* sums, int slot, int value) { atomicAdd(&sums[slot], value); }

template <typename T>
__global__ void scaled(T* values, T factor, int count) {
  __shared__ T tile[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < count ? values[i] : T(0);
  __syncthreads();
  if (i < count) values[i] = factor * tile[blockDim.x - 1 - threadIdx.x];
}

// Halves what it has until one is left.
__global__ void halves(int* sums, int count, int depth) {
  if (threadIdx.x == 0 && blockIdx.x == 0 && count > 1) {
    halves<<<2, blockDim.x>>>(sums, count / 2, depth + 1);
  }
  if (threadIdx.x == 0) atomicAdd(&sums[depth], count);
}

__global__ void parent(int* sums, float* values, int count) {
  if (threadIdx.x < 4) {
    int value = 1;
    leaf<<<dim3(2, 3), 8>>>(sums, 20, value);
    value = 1000;  // too late for the launch above
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    values[0] = 100;
    scaled<<<(count + 63) / 64, 64>>>(values, 2.0f, count);
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    leaf<<<1, 32, 16 * sizeof(int), stream>>>(sums, 21, sums[21] + 5);
    cudaStreamDestroy(stream);
    sums[21] = 0;
    if (cudaGetLastError() != cudaSuccess) sums[22] = 1;
    leaf<<<1, 4096>>>(sums, 22, 100);
    if (cudaGetLastError() == cudaSuccess) sums[22] = 2;
  }
}

__global__ void last(int* order) { order[1] = order[0]; }
__global__ void first(int* order) { atomicAdd(order, 1); }
__global__ void in_order(int* order) {
  if (threadIdx.x == 0 && blockIdx.x == 0) last<<<1, 1, 0, cudaStreamTailLaunch>>>(order);
  first<<<1, 2, 0, cudaStreamFireAndForget>>>(order);
}

// Copies and fills are made in the order of the launches.
__global__ void with_copies(int* sums) {
  leaf<<<1, 4>>>(sums, 0, 1);
  cudaMemcpyAsync(sums + 1, sums, sizeof(int), cudaMemcpyDeviceToDevice, 0);
  leaf<<<1, 2>>>(sums, 0, 1);
  cudaMemsetAsync(sums + 2, 0, sizeof(int), 0);
  leaf<<<1, 3>>>(sums, 2, 1);
  cudaMemset2DAsync(sums + 3, 2 * sizeof(int), 0, sizeof(int), 2, 0);
  cudaMemcpy2DAsync(sums + 7, sizeof(int), sums + 3, 2 * sizeof(int), sizeof(int), 2,
                    cudaMemcpyDeviceToDevice, 0);
  int* memory = nullptr;
  if (cudaMalloc(&memory, sizeof(int)) != cudaSuccess) return;
  *memory = 9;
  sums[9] = *memory;
  cudaFree(memory);
}

// A refused launch is known to the thread that made it, and forgotten behind the grid.
__global__ void refused(int* counts, int size) {
  if (threadIdx.x == 7) leaf<<<1, size>>>(counts, 3, 1);
  __syncthreads();
  if (cudaPeekAtLastError() != cudaSuccess) atomicAdd(counts, 1);
  if (cudaGetLastError() != cudaSuccess) atomicAdd(counts + 1, 1);
  if (cudaGetLastError() != cudaSuccess) atomicAdd(counts + 2, 1);
  if (threadIdx.x == 3) leaf<<<1, size>>>(counts, 3, 1);
}

int main() {
  constexpr int kCount = 128, kSums = 32;
  int* sums = nullptr;
  float* values = nullptr;
  OK(cudaMallocManaged(&sums, kSums * sizeof(int)));
  OK(cudaMallocManaged(&values, kCount * sizeof(float)));
  for (int i = 0; i < kSums; i++) sums[i] = 0;
  for (int i = 0; i < kCount; i++) values[i] = static_cast<float>(i);
  sums[21] = 7;
  parent<<<1, 32>>>(sums, values, kCount);
  OK(cudaGetLastError());
  OK(cudaDeviceSynchronize());
  EXPECT(sums[20] == 4 * 6 * 8);
  EXPECT(sums[21] == 32 * 12);
  EXPECT(sums[22] == 0);
  EXPECT(values[63] == 200.0f);
  EXPECT(values[0] == 126.0f);
  EXPECT(values[64] == 254.0f);

  halves<<<1, 32>>>(sums, 16, 0);
  OK(cudaDeviceSynchronize());
  const int expected[] = {16, 16, 8, 4, 2, 0};
  for (int depth = 0; depth < 6; depth++) EXPECT(sums[depth] == expected[depth]);

  sums[30] = sums[31] = 0;
  in_order<<<8, 4>>>(sums + 30);
  OK(cudaDeviceSynchronize());
  EXPECT(sums[31] == 64);

  for (int i = 0; i < 10; i++) sums[i] = 7;
  with_copies<<<1, 1>>>(sums);
  OK(cudaDeviceSynchronize());
  const int copied[] = {13, 11, 3, 0, 7, 0, 7, 0, 0, 9};
  for (int i = 0; i < 10; i++) EXPECT(sums[i] == copied[i]);

  for (int i = 0; i < 4; i++) sums[i] = 0;
  refused<<<1, 64>>>(sums, 4096);
  refused<<<2, 64>>>(sums, 1);
  OK(cudaDeviceSynchronize());
  EXPECT(sums[0] == 1 && sums[1] == 1 && sums[2] == 0 && sums[3] == 4);
  OK(cudaFree(sums));
  OK(cudaFree(values));
  std::puts("ok");
  return 0;
}
