// Vectors of the search for nearest neighbours in a graph.
#include <lambent/kernel.h>

// Nobody was visited yet; the search begins at `start`.
extern "C" __global__ void neighbours_begin(const float* start, float* x, float* visited,
                                            int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  x[i] = start[i];
  visited[i] = 0;
}

extern "C" __global__ void vsub(const float* a, const float* b, float* c, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) c[i] = a[i] - b[i];
}

extern "C" __global__ void vadd(float* sum, const float* a, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) sum[i] += a[i];
}

LAMBENT_KERNEL(neighbours_begin);
LAMBENT_KERNEL(vsub);
LAMBENT_KERNEL(vadd);
