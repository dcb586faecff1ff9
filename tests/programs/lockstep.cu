// Programs written before Volta: the lanes of a warp hand values to each other through shared
// memory, without a barrier between them. nvcc's side of it works where a GPU keeps the lanes
// together; the host's is built with lambent-bundle host --lockstep.
#include "program.h"

// The last 64 sums of a block, as textbooks have it.
__global__ void sums(const int* in, int* out) {
  __shared__ int tile[256];
  const unsigned i = threadIdx.x;
  tile[i] = in[blockIdx.x * blockDim.x + i];
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 32; half /= 2) {
    if (i < half) tile[i] += tile[i + half];
    __syncthreads();
  }
  if (i < 32) {
    volatile int* last = tile;
    last[i] += last[i + 32];
    last[i] += last[i + 16];
    last[i] += last[i + 8];
    last[i] += last[i + 4];
    last[i] += last[i + 2];
    last[i] += last[i + 1];
  }
  if (i == 0) out[blockIdx.x] = tile[0];
}

// Rows become columns within each warp; lanes of the odd rows add first, in a branch of their own.
__global__ void turned(const int* in, int* out) {
  __shared__ volatile int tile[4][8][9];
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (unsigned row = lane / 8; row < 8; row += 4) {
    tile[warp][row][lane % 8] = in[threadIdx.x / 32 * 64 + row * 8 + lane % 8];
    if (row % 2 == 1) tile[warp][row][lane % 8] += 1000;
  }
  for (unsigned row = lane / 8; row < 8; row += 4) {
    out[threadIdx.x / 32 * 64 + row * 8 + lane % 8] = tile[warp][lane % 8][row];
  }
}

int main() {
  const int blocks = 9;
  unsigned state = 3;
  std::vector<int> values(blocks * 256);
  for (int& each : values) each = static_cast<int>(next_random(&state) % 1000);
  int *in = upload(values), *out = nullptr;
  OK(cudaMalloc(&out, values.size() * sizeof(int)));
  sums<<<blocks, 256>>>(in, out);
  LAUNCHED();
  const auto found = download(out, blocks);
  for (int block = 0; block < blocks; ++block) {
    int sum = 0;
    for (int i = 0; i < 256; ++i) sum += values[block * 256 + i];
    EXPECT(found[block] == sum);
  }
  turned<<<1, 128>>>(in, out);
  LAUNCHED();
  const auto columns = download(out, 256);
  for (int i = 0; i < 256; ++i) {
    const int matrix = i / 64, row = i / 8 % 8, column = i % 8;
    EXPECT(columns[i] == values[matrix * 64 + column * 8 + row] + (column % 2 == 1 ? 1000 : 0));
  }
  OK(cudaFree(in));
  OK(cudaFree(out));
  std::puts("ok");
  return 0;
}
