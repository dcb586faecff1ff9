// K-means in two dimensions: the nearest centre for each point, and new centres by atomic sums.
constexpr int kClusters = 5;
__constant__ float2 centres[kClusters];

__global__ void assign(const float2* points, int count, int* cluster, float* sums, int* members) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int best = 0;
  float best_distance = 3.4e38f;
  for (int k = 0; k < kClusters; ++k) {
    const float dx = points[i].x - centres[k].x, dy = points[i].y - centres[k].y;
    const float distance = dx * dx + dy * dy;
    if (distance < best_distance) {
      best_distance = distance;
      best = k;
    }
  }
  cluster[i] = best;
  atomicAdd(&sums[2 * best], points[i].x);
  atomicAdd(&sums[2 * best + 1], points[i].y);
  atomicAdd(&members[best], 1);
}

#ifdef __CUDACC__
#include "program.h"

int main() {
  const int count = 4000, rounds = 8;
  unsigned seed = 7;
  std::vector<float2> points(count);
  for (int i = 0; i < count; ++i) {
    // Well apart, so that rounding decides nothing.
    points[i] = make_float2(10.0f * (i % kClusters) + random_float(&seed),
                            7.0f * (i % kClusters) + random_float(&seed));
  }
  std::vector<float2> current(points.begin(), points.begin() + kClusters);
  float2* device = upload(points);
  int *cluster = nullptr, *members = nullptr;
  float* sums = nullptr;
  OK(cudaMalloc(&cluster, count * sizeof(int)));
  OK(cudaMalloc(&members, kClusters * sizeof(int)));
  OK(cudaMalloc(&sums, 2 * kClusters * sizeof(float)));
  for (int round = 0; round < rounds; ++round) {
    OK(cudaMemcpyToSymbol(centres, current.data(), kClusters * sizeof(float2)));
    OK(cudaMemset(sums, 0, 2 * kClusters * sizeof(float)));
    OK(cudaMemset(members, 0, kClusters * sizeof(int)));
    assign<<<(count + 127) / 128, 128>>>(device, count, cluster, sums, members);
    LAUNCHED();
    const auto total = download(sums, 2 * kClusters);
    const auto size = download(members, kClusters);
    for (int k = 0; k < kClusters; ++k) {
      EXPECT(size[k] == count / kClusters);
      current[k] = make_float2(total[2 * k] / size[k], total[2 * k + 1] / size[k]);
    }
  }
  const auto found = download(cluster, count);
  for (int i = 0; i < count; ++i) EXPECT(found[i] == i % kClusters);
  for (int k = 0; k < kClusters; ++k) {
    EXPECT(close_to(current[k].x, 10.0 * k + 0.5, 0.05));
    EXPECT(close_to(current[k].y, 7.0 * k + 0.5, 0.05));
  }
  std::puts("ok");
}
#endif
