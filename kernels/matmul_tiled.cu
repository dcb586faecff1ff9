// c = a * b for square row-major matrices of `size` rows, through tiles in shared memory. Launch
// with (Tile, Tile) threads and (ceil(size / Tile), ceil(size / Tile)) blocks.
#include <lambent/kernel.h>

template <int Tile>
__global__ void matmul_tiled(const float* __restrict__ a, const float* __restrict__ b,
                             float* __restrict__ c, int size) {
  __shared__ float tile_a[Tile][Tile];
  __shared__ float tile_b[Tile][Tile];
  const int row = blockIdx.y * Tile + threadIdx.y;
  const int column = blockIdx.x * Tile + threadIdx.x;
  float sum = 0.0f;
  for (int begin = 0; begin < size; begin += Tile) {
    const int column_a = begin + threadIdx.x;
    const int row_b = begin + threadIdx.y;
    tile_a[threadIdx.y][threadIdx.x] =
        row < size && column_a < size ? a[row * size + column_a] : 0.0f;
    tile_b[threadIdx.y][threadIdx.x] =
        row_b < size && column < size ? b[row_b * size + column] : 0.0f;
    __syncthreads();
    for (int k = 0; k < Tile; ++k) sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
    __syncthreads();
  }
  if (row < size && column < size) c[row * size + column] = sum;
}

LAMBENT_KERNEL_AS(matmul_tiled_8, matmul_tiled<8>);
LAMBENT_KERNEL_AS(matmul_tiled_16, matmul_tiled<16>);
