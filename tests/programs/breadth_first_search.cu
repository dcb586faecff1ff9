// Levels of a graph from one node, a launch for each level; whether to go on is told through
// page-locked memory that the device writes.
__global__ void visit(const int* first_edge, const int* edges, int* levels, int nodes, int level,
                      int* go_on) {
  const int node = blockIdx.x * blockDim.x + threadIdx.x;
  if (node >= nodes || levels[node] != level) return;
  for (int i = first_edge[node]; i < first_edge[node + 1]; ++i) {
    if (atomicCAS(&levels[edges[i]], -1, level + 1) == -1) *go_on = 1;
  }
}

#ifdef __CUDACC__
#include <queue>

#include "program.h"

int main() {
  const int nodes = 3000;
  unsigned seed = 6;
  std::vector<int> first_edge(nodes + 1), edges;
  for (int node = 0; node < nodes; ++node) {
    first_edge[node] = static_cast<int>(edges.size());
    if (node + 1 < nodes && node % 7) edges.push_back(node + 1);
    edges.push_back(next_random(&seed) % nodes);
  }
  first_edge[nodes] = static_cast<int>(edges.size());

  std::vector<int> expected(nodes, -1);
  std::queue<int> queue({0});
  expected[0] = 0;
  for (; !queue.empty(); queue.pop()) {
    const int node = queue.front();
    for (int i = first_edge[node]; i < first_edge[node + 1]; ++i) {
      if (expected[edges[i]] != -1) continue;
      expected[edges[i]] = expected[node] + 1;
      queue.push(edges[i]);
    }
  }

  std::vector<int> levels(nodes, -1);
  levels[0] = 0;
  int *device_first = upload(first_edge), *device_edges = upload(edges),
      *device_levels = upload(levels);
  int *go_on = nullptr, *device_go_on = nullptr;
  OK(cudaHostAlloc(&go_on, sizeof(int), cudaHostAllocMapped));
  OK(cudaHostGetDevicePointer(&device_go_on, go_on, 0));
  *go_on = 1;
  for (int level = 0; *go_on; ++level) {
    EXPECT(level < nodes);
    *go_on = 0;
    visit<<<(nodes + 127) / 128, 128>>>(device_first, device_edges, device_levels, nodes, level,
                                        device_go_on);
    LAUNCHED();
    OK(cudaDeviceSynchronize());
  }
  EXPECT(download(device_levels, nodes) == expected);
  OK(cudaFreeHost(go_on));
  std::puts("ok");
}
#endif
