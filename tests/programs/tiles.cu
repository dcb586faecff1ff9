// Reductions with cooperative groups in the habits of the samples: groups passed on by value, tiles
// that forget their block, the grid, lanes that came the same way.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
namespace cg = cooperative_groups;
__device__ int reduce_sum(cg::thread_group g, int* temp, int val) {
  int lane = g.thread_rank();
  for (int i = g.size() / 2; i > 0; i /= 2) {
    temp[lane] = val;
    g.sync();
    if (lane < i) val += temp[lane + i];
    g.sync();
  }
  return val;
}
__global__ void sum_kernel_block(int* sum, const int* input, int n) {
  int my = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 4; i += blockDim.x * gridDim.x) {
    int4 in = ((const int4*)input)[i];
    my += in.x + in.y + in.z + in.w;
  }
  extern __shared__ int temp[];
  auto g = cg::this_thread_block();
  int s = reduce_sum(g, temp, my);
  if (g.thread_rank() == 0) atomicAdd(sum, s);
}
template <int tile_sz>
__global__ void sum_tile(int* sum, const int* input, int n) {
  int my = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
    my += input[i];
  auto tile = cg::tiled_partition<tile_sz>(cg::this_thread_block());
  int t = cg::reduce(tile, my, cg::plus<int>());
  if (tile.thread_rank() == 0) atomicAdd(sum, t);
}
__global__ void grid_sum(int* out, const int* in, int n) {
  cg::grid_group grid = cg::this_grid();
  cg::thread_block block = cg::this_thread_block();
  __shared__ int s[32];
  int v = 0;
  for (int i = grid.thread_rank(); i < n; i += grid.size()) v += in[i];
  cg::thread_block_tile<32> w = cg::tiled_partition<32>(block);
  for (int o = w.size() / 2; o; o >>= 1) v += w.shfl_down(v, o);
  if (w.thread_rank() == 0) s[w.meta_group_rank()] = v;
  cg::sync(block);
  if (block.thread_rank() == 0) {
    int t = 0;
    for (unsigned i = 0; i < w.meta_group_size(); i++) t += s[i];
    out[1 + blockIdx.x] = t;
  }
  grid.sync();
  if (grid.thread_rank() == 0) {
    int t = 0;
    for (unsigned i = 0; i < gridDim.x; i++) t += out[1 + i];
    out[0] = t;
  }
}
__global__ void filter(int* dst, int* n, const int* src, int len) {  // warp-aggregated atomics
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < len; i += blockDim.x * gridDim.x)
    if (src[i] % 3 == 0) {
      cg::coalesced_group a = cg::coalesced_threads();
      int base;
      if (a.thread_rank() == 0) base = atomicAdd(n, (int)a.size());
      base = a.shfl(base, 0);
      dst[base + a.thread_rank()] = src[i];
    }
}
int main() {
  int n = 1 << 14;
  int *data, *sum;
  cudaMallocManaged(&data, n * sizeof(int));
  cudaMallocManaged(&sum, 64 * sizeof(int));
  long expect = 0;
  for (int i = 0; i < n; i++) {
    data[i] = i % 7;
    expect += i % 7;
  }
  sum[0] = 0;
  sum_kernel_block<<<8, 256, 256 * sizeof(int)>>>(sum, data, n);
  cudaDeviceSynchronize();
  if (sum[0] != expect) return printf("block %d %ld\n", sum[0], expect), 1;
  sum[0] = 0;
  sum_tile<16><<<8, 256>>>(sum, data, n);
  cudaDeviceSynchronize();
  if (sum[0] != expect) return printf("tile %d\n", sum[0]), 1;
  cudaDeviceProp p;
  cudaGetDeviceProperties(&p, 0);
  if (!p.cooperativeLaunch) return puts("no coop"), 0;
  int per;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per, grid_sum, 128, 0);
  int blocks = per * p.multiProcessorCount;
  if (blocks > 16) blocks = 16;
  void* args[] = {&sum, &data, &n};
  cudaError_t e = cudaLaunchCooperativeKernel((void*)grid_sum, dim3(blocks), dim3(128), args, 0, 0);
  if (e) return printf("coop %s\n", cudaGetErrorString(e)), 1;
  cudaDeviceSynchronize();
  if (sum[0] != expect) return printf("grid %d\n", sum[0]), 1;
  int* dst;
  cudaMallocManaged(&dst, n * 4);
  sum[5] = 0;
  filter<<<4, 128>>>(dst, sum + 5, data, n);
  cudaDeviceSynchronize();
  int want = 0;
  for (int i = 0; i < n; i++) want += data[i] % 3 == 0;
  if (sum[5] != want) return printf("filter %d %d\n", sum[5], want), 1;
  puts("ok");
  return 0;
}
