// A copy between devices that is not asynchronous comes behind what both have been given, and
// before what they are given next.
#include <cstdio>

#include "program.h"

__global__ void add_slowly(int* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  __nanosleep(100000);
  if (i < count) values[i] += 1;
}

int main() {
  int devices = 0;
  OK(cudaGetDeviceCount(&devices));
  if (devices < 2) return 77;
  const int count = 1 << 14, threads = 256;
  int *a, *b;
  OK(cudaSetDevice(0));
  OK(cudaMalloc(&a, count * sizeof(int)));
  OK(cudaMemset(a, 0, count * sizeof(int)));
  OK(cudaSetDevice(1));
  OK(cudaMalloc(&b, count * sizeof(int)));
  cudaStream_t apart;
  OK(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
  for (int turn = 1; turn <= 3; ++turn) {
    OK(cudaSetDevice(0));
    add_slowly<<<count / threads, threads>>>(a, count);
    LAUNCHED();
    OK(cudaSetDevice(1));
    OK(cudaMemcpyPeer(b, 1, a, 0, count * sizeof(int)));
    add_slowly<<<count / threads, threads, 0, apart>>>(b, count);
    LAUNCHED();
    OK(cudaSetDevice(0));
    OK(cudaMemcpyPeer(a, 0, b, 1, count * sizeof(int)));
    EXPECT(download(a, count)[count - 1] == 2 * turn);
  }
  std::puts("ok");
}
