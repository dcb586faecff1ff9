// What the two files know of each other.
#pragma once
#include <cuda_runtime.h>
struct Params {
  int a;
  float b;
};
extern __device__ int device_counter;
extern __constant__ Params params;
__device__ int compute(int x);
__global__ void scale_kernel(int* o);
