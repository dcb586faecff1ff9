// A program of two files that nvcc links (-rdc): a variable, a function and a kernel of one are
// used in the other, and another kernel is static.
#include <cstdio>
#include "shared.cuh"
__device__ int device_counter;
__constant__ Params params;
int run_b(int*);
int main() {
  Params p = {3, 4.5f};
  cudaMemcpyToSymbol(params, &p, sizeof p);
  int* d;
  cudaMalloc(&d, 4);
  scale_kernel<<<1, 32>>>(d);
  cudaDeviceSynchronize();
  int h;
  cudaMemcpy(&h, d, 4, cudaMemcpyDeviceToHost);
  int b = run_b(d);
  int c;
  cudaMemcpyFromSymbol(&c, device_counter, 4);
  printf("%d %d %d %s\n", h, b, c, cudaGetErrorString(cudaGetLastError()));
  return !(h == 12 && b == 24 && c == 64);
}
