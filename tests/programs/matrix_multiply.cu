// C = A B in tiles held in shared memory, for two tile sizes from one template.
template <int Tile>
__global__ void multiply(const float* a, const float* b, float* c, int size) {
  __shared__ float tile_a[Tile][Tile], tile_b[Tile][Tile];
  const int row = blockIdx.y * Tile + threadIdx.y, column = blockIdx.x * Tile + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < size; k += Tile) {
    tile_a[threadIdx.y][threadIdx.x] = a[row * size + k + threadIdx.x];
    tile_b[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * size + column];
    __syncthreads();
    for (int i = 0; i < Tile; ++i) sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
    __syncthreads();
  }
  c[row * size + column] = sum;
}
template __global__ void multiply<8>(const float*, const float*, float*, int);
template __global__ void multiply<16>(const float*, const float*, float*, int);

#ifdef __CUDACC__
#include "program.h"

int main() {
  const int size = 64;
  unsigned seed = 2;
  std::vector<float> a(size * size), b(size * size), expected(size * size, 0.0f);
  for (auto& value : a) value = random_float(&seed);
  for (auto& value : b) value = random_float(&seed);
  for (int i = 0; i < size; ++i)
    for (int k = 0; k < size; ++k)
      for (int j = 0; j < size; ++j) expected[i * size + j] += a[i * size + k] * b[k * size + j];

  float *device_a = upload(a), *device_b = upload(b), *device_c = nullptr;
  OK(cudaMalloc(&device_c, a.size() * sizeof(float)));
  for (int tile : {8, 16}) {
    OK(cudaMemset(device_c, 0xff, a.size() * sizeof(float)));
    const dim3 grid(size / tile, size / tile), block(tile, tile);
    if (tile == 8) {
      multiply<8><<<grid, block>>>(device_a, device_b, device_c, size);
    } else {
      multiply<16><<<grid, block>>>(device_a, device_b, device_c, size);
    }
    LAUNCHED();
    const auto c = download(device_c, a.size());
    for (size_t i = 0; i < c.size(); ++i) EXPECT(close_to(c[i], expected[i]));
  }
  cudaFuncAttributes attributes;
  OK(cudaFuncGetAttributes(&attributes, multiply<16>));
  EXPECT(attributes.sharedSizeBytes == 2 * 16 * 16 * sizeof(float));
  EXPECT(attributes.maxThreadsPerBlock >= 256);
  std::puts("ok");
}
#endif
