// What devices say of themselves, work on each of them from one thread and from several, copies
// from one to the other.
__global__ void number(int* values, int base) { values[threadIdx.x] = base + threadIdx.x; }

#ifdef __CUDACC__
#include <cstring>
#include <thread>

#include "program.h"

static void work_on(int device) {
  OK(cudaSetDevice(device));
  int current = -1, *values = nullptr;
  OK(cudaGetDevice(&current));
  EXPECT(current == device);
  OK(cudaMalloc(&values, 32 * sizeof(int)));
  number<<<1, 32>>>(values, 100 * device);
  LAUNCHED();
  const auto found = download(values, 32);
  for (int i = 0; i < 32; ++i) EXPECT(found[i] == 100 * device + i);
  cudaPointerAttributes attributes;
  OK(cudaPointerGetAttributes(&attributes, values));
  EXPECT(attributes.device == device);
  OK(cudaFree(values));
}

int main() {
  int count = 0, version = 0, driver = 0;
  OK(cudaRuntimeGetVersion(&version));
  OK(cudaDriverGetVersion(&driver));
  EXPECT(version >= 13000 && driver >= version);
  OK(cudaGetDeviceCount(&count));
  EXPECT(count >= 1);
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties;
    OK(cudaGetDeviceProperties(&properties, device));
    EXPECT(properties.warpSize == 32);
    EXPECT(properties.major >= 7);
    EXPECT(properties.multiProcessorCount >= 1);
    EXPECT(properties.totalGlobalMem >= size_t{256} << 20);
    EXPECT(properties.maxThreadsPerBlock == 1024);
    EXPECT(properties.maxThreadsDim[2] == 64);
    EXPECT(properties.unifiedAddressing == 1);
    int value = 0;
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, device));
    EXPECT(value == properties.multiProcessorCount);
    char id[32];
    int again = -1;
    OK(cudaDeviceGetPCIBusId(id, sizeof id, device));
    OK(cudaDeviceGetByPCIBusId(&again, id));
    EXPECT(again == device);
    work_on(device);
  }
  std::vector<std::thread> threads;
  for (int device = 0; device < count; ++device) threads.emplace_back(work_on, device);
  for (auto& thread : threads) thread.join();

  size_t free_bytes = 0, total_bytes = 0;
  OK(cudaMemGetInfo(&free_bytes, &total_bytes));
  EXPECT(free_bytes > 0 && free_bytes < total_bytes);
  if (count > 1) {
    const std::vector<int> values = {3, 1, 4, 1, 5};
    OK(cudaSetDevice(0));
    int *first = upload(values), *second = nullptr;
    OK(cudaSetDevice(1));
    OK(cudaMalloc(&second, values.size() * sizeof(int)));
    OK(cudaMemcpyPeer(second, 1, first, 0, values.size() * sizeof(int)));
    EXPECT(download(second, values.size()) == values);
  }
  OK(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
  unsigned flags = 0;
  OK(cudaGetDeviceFlags(&flags));
  EXPECT((flags & cudaDeviceScheduleMask) == cudaDeviceScheduleBlockingSync);
  std::puts("ok");
}
#endif
