// The kernels of the benchmark kernels-host, written as one writes them for a GPU; yardstick.cl has
// the same algorithms for PoCL.
#include <lambent/kernel.h>

extern "C" __global__ void vector_add(const float* a, const float* b, float* c) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  c[i] = a[i] + b[i];
}

template <int Tile>
__global__ void matmul(const float* a, const float* b, float* c, int size) {
  __shared__ float tile_a[Tile][Tile];
  __shared__ float tile_b[Tile][Tile];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * Tile + y, column = blockIdx.x * Tile + x;
  float sum = 0.0f;
  for (int begin = 0; begin < size; begin += Tile) {
    tile_a[y][x] = a[row * size + begin + x];
    tile_b[y][x] = b[(begin + y) * size + column];
    __syncthreads();
    for (int k = 0; k < Tile; ++k) sum += tile_a[y][k] * tile_b[k][x];
    __syncthreads();
  }
  c[row * size + column] = sum;
}

extern "C" __global__ void reduce(const float* input, float* sums) {
  extern __shared__ float reduce_partial[];
  const unsigned i = threadIdx.x;
  reduce_partial[i] = input[blockIdx.x * blockDim.x + i];
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (i < half) reduce_partial[i] += reduce_partial[i + half];
    __syncthreads();
  }
  if (i == 0) sums[blockIdx.x] = reduce_partial[0];
}

// Running sums within each block, doubling the distance in every step.
extern "C" __global__ void scan(const float* input, float* output) {
  __shared__ float values[2][256];
  const int i = threadIdx.x;
  int from = 0;
  values[0][i] = input[blockIdx.x * blockDim.x + i];
  __syncthreads();
  for (int distance = 1; distance < 256; distance *= 2) {
    const float before = i >= distance ? values[from][i - distance] : 0.0f;
    values[1 - from][i] = values[from][i] + before;
    from = 1 - from;
    __syncthreads();
  }
  output[blockIdx.x * blockDim.x + i] = values[from][i];
}

// Eight steps of a three-point mean within each block.
extern "C" __global__ void stencil(const float* input, float* output) {
  __shared__ float values[2][258];
  const int i = threadIdx.x;
  int from = 0;
  values[0][i + 1] = input[blockIdx.x * blockDim.x + i];
  if (i < 2) values[i][0] = values[i][257] = 0.0f;
  __syncthreads();
  for (int step = 0; step < 8; ++step) {
    values[1 - from][i + 1] =
        (values[from][i] + values[from][i + 1] + values[from][i + 2]) * (1.0f / 3.0f);
    from = 1 - from;
    __syncthreads();
  }
  output[blockIdx.x * blockDim.x + i] = values[from][i + 1];
}

LAMBENT_KERNEL(vector_add);
LAMBENT_KERNEL_AS(matmul_16, matmul<16>);
LAMBENT_KERNEL_AS(matmul_32, matmul<32>);
LAMBENT_KERNEL(reduce);
LAMBENT_KERNEL(scan);
LAMBENT_KERNEL(stencil);
