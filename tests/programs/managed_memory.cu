// Managed memory: the host and two devices work on the same addresses, with advice and prefetches.
__global__ void scale(float* values, int count, float factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= factor;
}

__managed__ int rounds;

__global__ void count_round() { rounds += 1; }

#ifdef __CUDACC__
#include "program.h"

static cudaMemLocation on_device(int device) { return {cudaMemLocationTypeDevice, device}; }
static cudaMemLocation on_host() { return {cudaMemLocationTypeHost, 0}; }

static int last_prefetch(const void* memory, size_t bytes) {
  int location = 99;
  OK(cudaMemRangeGetAttribute(&location, sizeof location, cudaMemRangeAttributeLastPrefetchLocation,
                              memory, bytes));
  return location;
}

int main() {
  const int count = 3 << 20;
  const size_t bytes = count * sizeof(float);
  const int blocks = (count + 255) / 256;
  int concurrent = 0;
  OK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
  EXPECT(concurrent == 1);
  float* values = nullptr;
  OK(cudaMallocManaged(&values, bytes));
  EXPECT(cudaMallocManaged(&values, 0) == cudaErrorInvalidValue);
  EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
  OK(cudaMallocManaged(&values, bytes));
  cudaPointerAttributes attributes;
  OK(cudaPointerGetAttributes(&attributes, values));
  EXPECT(attributes.type == cudaMemoryTypeManaged);
  EXPECT(attributes.devicePointer == values && attributes.hostPointer == values);
  for (int i = 0; i < count; ++i) values[i] = static_cast<float>(i % 100);

  cudaStream_t stream;
  OK(cudaStreamCreate(&stream));
  OK(cudaMemAdvise(values, bytes, cudaMemAdviseSetPreferredLocation, on_device(0)));
  OK(cudaMemPrefetchAsync(values, bytes, on_device(0), 0, stream));
  scale<<<blocks, 256, 0, stream>>>(values, count, 2.0f);
  LAUNCHED();
  OK(cudaStreamSynchronize(stream));
  EXPECT(last_prefetch(values, bytes) == 0);
  OK(cudaMemPrefetchAsync(values, bytes, on_host(), 0, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT(last_prefetch(values, bytes) == cudaCpuDeviceId);
  for (int i = 0; i < count; ++i) EXPECT(values[i] == 2.0f * static_cast<float>(i % 100));

  // What both devices read may lie in both; a device that is told writes where it lies.
  OK(cudaMemAdvise(values, bytes, cudaMemAdviseSetReadMostly, on_host()));
  int read_mostly = 0, preferred = 99;
  void* found[] = {&read_mostly, &preferred};
  size_t sizes[] = {sizeof read_mostly, sizeof preferred};
  cudaMemRangeAttribute wanted[] = {cudaMemRangeAttributeReadMostly,
                                    cudaMemRangeAttributePreferredLocation};
  OK(cudaMemRangeGetAttributes(found, sizes, wanted, 2, values, bytes));
  EXPECT(read_mostly == 1 && preferred == 0);
  OK(cudaMemAdvise(values, bytes, cudaMemAdviseUnsetReadMostly, on_host()));
  OK(cudaMemAdvise(values, bytes, cudaMemAdviseUnsetPreferredLocation, on_host()));
  OK(cudaMemAdvise(values, bytes, cudaMemAdviseSetAccessedBy, on_device(1)));
  OK(cudaSetDevice(1));
  scale<<<blocks, 256>>>(values, count, 0.5f);
  LAUNCHED();
  OK(cudaDeviceSynchronize());
  OK(cudaSetDevice(0));
  for (int i = 0; i < count; ++i) EXPECT(values[i] == static_cast<float>(i % 100));

  // Several ranges at once; managed memory alone, and never in the default stream.
  void* ranges[] = {values, values + count / 2};
  size_t range_bytes[] = {bytes / 2, bytes / 2}, first = 0;
  cudaMemLocation target = on_device(1);
  OK(cudaMemPrefetchBatchAsync(ranges, range_bytes, 2, &target, &first, 1, 0, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT(last_prefetch(values, bytes) == 1);
  float* plain = nullptr;
  OK(cudaMalloc(&plain, bytes));
  EXPECT(cudaMemPrefetchAsync(plain, bytes, on_device(0), 0, stream) == cudaErrorInvalidValue);
  EXPECT(cudaMemAdvise(plain, bytes, cudaMemAdviseSetReadMostly, on_device(0)) ==
         cudaErrorInvalidValue);
  EXPECT(cudaGetLastError() == cudaErrorInvalidValue);

  // Memory of one stream, and a variable of both worlds.
  float* attached = nullptr;
  OK(cudaMallocManaged(&attached, 4096, cudaMemAttachHost));
  attached[0] = 3.0f;
  OK(cudaStreamAttachMemAsync(stream, attached, 0, cudaMemAttachSingle));
  OK(cudaStreamSynchronize(stream));
  scale<<<1, 32, 0, stream>>>(attached, 1, 5.0f);
  LAUNCHED();
  OK(cudaStreamSynchronize(stream));
  EXPECT(attached[0] == 15.0f);
  rounds = 40;
  count_round<<<1, 1>>>();
  count_round<<<1, 1>>>();
  LAUNCHED();
  OK(cudaDeviceSynchronize());
  EXPECT(rounds == 42);
  OK(cudaFree(attached));
  OK(cudaFree(plain));
  OK(cudaFree(values));
  OK(cudaStreamDestroy(stream));
  std::puts("ok");
}
#endif
