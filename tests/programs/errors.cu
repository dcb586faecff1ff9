// What goes wrong, and how programs hear of it: codes, the last error of each thread, launches that
// cannot be.
__global__ void nothing() {}
__global__ void __launch_bounds__(64) small(int* flag) { *flag = 1; }

#ifdef __CUDACC__
#include <cstring>
#include <thread>

#include "program.h"

int main() {
  OK(cudaFree(nullptr));
  void* pointer = nullptr;
  EXPECT(cudaMalloc(&pointer, size_t{1} << 60) == cudaErrorMemoryAllocation);
  EXPECT(pointer == nullptr);
  EXPECT(cudaPeekAtLastError() == cudaErrorMemoryAllocation);
  std::thread([] { EXPECT(cudaGetLastError() == cudaSuccess); }).join();
  EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
  EXPECT(cudaGetLastError() == cudaSuccess);
  EXPECT(std::strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation") ==
         0);
  EXPECT(std::strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);

  nothing<<<0, 32>>>();
  EXPECT(cudaGetLastError() == cudaErrorInvalidConfiguration);
  nothing<<<1, 2048>>>();
  EXPECT(cudaGetLastError() == cudaErrorInvalidConfiguration);
  nothing<<<dim3(1, 70'000), 32>>>();
  EXPECT(cudaGetLastError() == cudaErrorInvalidConfiguration);
  nothing<<<1, 32, 1 << 20>>>();
  EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
  nothing<<<1, 32>>>();
  OK(cudaGetLastError());
  EXPECT(cudaLaunchKernel(reinterpret_cast<const void*>(&pointer), dim3(1), dim3(1), nullptr, 0,
                          nullptr) == cudaErrorInvalidDeviceFunction);

  int host[4] = {};
  EXPECT(cudaFree(host) == cudaErrorInvalidValue);
  EXPECT(cudaFreeHost(host) == cudaErrorInvalidValue);
  EXPECT(cudaMalloc(nullptr, 4) == cudaErrorInvalidValue);
  OK(cudaMalloc(&pointer, 16));
  EXPECT(cudaMemcpy(pointer, host, 16, static_cast<cudaMemcpyKind>(9)) ==
         cudaErrorInvalidMemcpyDirection);
  EXPECT(cudaMemcpy2D(pointer, 2, host, 4, 4, 1, cudaMemcpyHostToDevice) ==
         cudaErrorInvalidPitchValue);
  OK(cudaFree(pointer));
  EXPECT(cudaFree(pointer) == cudaErrorInvalidValue);
  EXPECT(cudaSetDevice(1000) == cudaErrorInvalidDevice);
  EXPECT(cudaSetDevice(-1) == cudaErrorInvalidDevice);
  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  OK(cudaStreamDestroy(stream));
  EXPECT(cudaEventDestroy(nullptr) != cudaSuccess);
  cudaPointerAttributes attributes;
  OK(cudaPointerGetAttributes(&attributes, host));
  EXPECT(attributes.type == cudaMemoryTypeUnregistered);
  cudaGetLastError();

  // After a reset everything begins again.
  OK(cudaMalloc(&pointer, 16));
  OK(cudaDeviceReset());
  int* flag = nullptr;
  OK(cudaMalloc(&flag, sizeof(int)));
  small<<<1, 32>>>(flag);
  OK(cudaGetLastError());
  OK(cudaDeviceSynchronize());
  std::puts("ok");
}
#endif
