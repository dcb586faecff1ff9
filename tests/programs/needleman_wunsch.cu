// The best alignment of two sequences: blocks along each anti-diagonal of the table, and threads
// along each anti-diagonal of a block's tile.
constexpr int kTile = 16;
constexpr int kGap = -2;

__global__ void align(const char* first, const char* second, int* table, int size, int diagonal) {
  __shared__ int tile[kTile + 1][kTile + 1];
  const int first_block = max(0, diagonal - size / kTile + 1);
  const int block_x = first_block + blockIdx.x, block_y = diagonal - block_x;
  const int left = block_x * kTile, top = block_y * kTile, stride = size + 1;
  const int thread = threadIdx.x;
  tile[0][thread + 1] = table[top * stride + left + thread + 1];
  tile[thread + 1][0] = table[(top + thread + 1) * stride + left];
  if (thread == 0) tile[0][0] = table[top * stride + left];
  __syncthreads();
  for (int step = 0; step < 2 * kTile - 1; ++step) {
    const int x = thread, y = step - thread;
    if (y >= 0 && y < kTile) {
      const int match = first[left + x] == second[top + y] ? 3 : -1;
      tile[y + 1][x + 1] =
          max(tile[y][x] + match, max(tile[y][x + 1] + kGap, tile[y + 1][x] + kGap));
    }
    __syncthreads();
  }
  for (int y = 0; y < kTile; ++y) {
    table[(top + y + 1) * stride + left + thread + 1] = tile[y + 1][thread + 1];
  }
}

#ifdef __CUDACC__
#include <algorithm>

#include "program.h"

int main() {
  const int size = 96, blocks = size / kTile, stride = size + 1;
  unsigned seed = 10;
  std::vector<char> first(size), second(size);
  for (auto& letter : first) letter = "ACGT"[next_random(&seed) % 4];
  for (auto& letter : second) letter = "ACGT"[next_random(&seed) % 4];
  std::vector<int> table(stride * stride);
  for (int i = 0; i <= size; ++i) table[i] = table[i * stride] = kGap * i;
  int* device = upload(table);
  char *device_first = upload(first), *device_second = upload(second);
  for (int diagonal = 0; diagonal < 2 * blocks - 1; ++diagonal) {
    const int width = std::min(diagonal + 1, 2 * blocks - 1 - diagonal);
    align<<<width, kTile>>>(device_first, device_second, device, size, diagonal);
    LAUNCHED();
  }
  for (int y = 1; y <= size; ++y) {
    for (int x = 1; x <= size; ++x) {
      const int match = first[x - 1] == second[y - 1] ? 3 : -1;
      table[y * stride + x] =
          std::max({table[(y - 1) * stride + x - 1] + match, table[(y - 1) * stride + x] + kGap,
                    table[y * stride + x - 1] + kGap});
    }
  }
  EXPECT(download(device, table.size()) == table);
  std::puts("ok");
}
#endif
