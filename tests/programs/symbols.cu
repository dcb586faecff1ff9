// Variables of the device by their names: whole, in parts, by address, in constant memory, of each
// device its own.
__device__ float table[16];
__device__ int calls = 7;
__constant__ short weights[8] = {1, 2, 3, 4, 5, 6, 7, 8};
namespace physics {
__device__ double gravity = 9.81;
}

__global__ void scale_table(float* sums) {
  const int i = threadIdx.x;
  table[i] *= weights[i % 8];
  atomicAdd(&calls, 1);
  sums[i] = table[i] + static_cast<float>(physics::gravity);
}

#ifdef __CUDACC__
#include "program.h"

int main() {
  float values[16], back[16];
  for (int i = 0; i < 16; ++i) values[i] = static_cast<float>(i);
  size_t bytes = 0;
  OK(cudaGetSymbolSize(&bytes, table));
  EXPECT(bytes == sizeof table);
  int devices = 0;
  OK(cudaGetDeviceCount(&devices));
  for (int device = 0; device < devices; ++device) {
    OK(cudaSetDevice(device));
    OK(cudaMemcpyToSymbol(table, values, sizeof values));
    OK(cudaMemcpyToSymbol(table, &values[1], sizeof(float), 5 * sizeof(float)));
    float* sums = nullptr;
    OK(cudaMalloc(&sums, sizeof values));
    scale_table<<<1, 16>>>(sums);
    LAUNCHED();
    OK(cudaMemcpyFromSymbol(back, table, sizeof back));
    for (int i = 0; i < 16; ++i) EXPECT(back[i] == (i == 5 ? 1 : i) * (i % 8 + 1));
    const auto summed = download(sums, 16);
    EXPECT(close_to(summed[3], back[3] + 9.81));
    int counted = 0;
    OK(cudaMemcpyFromSymbol(&counted, calls, sizeof counted));
    EXPECT(counted == 7 + 16);
    // Through its address it is memory like any other.
    int* address = nullptr;
    OK(cudaGetSymbolAddress(reinterpret_cast<void**>(&address), calls));
    OK(cudaMemset(address, 0, sizeof(int)));
    OK(cudaMemcpyFromSymbol(&counted, calls, sizeof counted));
    EXPECT(counted == 0);
    cudaPointerAttributes attributes;
    OK(cudaPointerGetAttributes(&attributes, address));
    EXPECT(attributes.type == cudaMemoryTypeDevice);
    EXPECT(attributes.device == device);
  }
  EXPECT(cudaMemcpyToSymbol(table, values, sizeof values, 4) == cudaErrorInvalidValue);
  int no_symbol = 0;
  EXPECT(cudaMemcpyToSymbol(&no_symbol, values, 4) == cudaErrorInvalidSymbol);
  EXPECT(cudaGetLastError() == cudaErrorInvalidSymbol);
  OK(cudaGetLastError());
  std::puts("ok");
}
#endif
