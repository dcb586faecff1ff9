// Work cut into pieces over several streams, ordered by events and reported to the host in stream
// order.
__global__ void square(const float* input, float* output, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) output[i] = input[i] * input[i];
}

#ifdef __CUDACC__
#include <atomic>

#include "program.h"

static std::atomic<int> pieces_done{0};
static std::atomic<int> callbacks{0};

static void piece_done(void*) { ++pieces_done; }
static void called_back(cudaStream_t, cudaError_t status, void* expected) {
  if (status == cudaSuccess && expected == &callbacks) ++callbacks;
}

int main() {
  const int streams = 4, piece = 5000, count = streams * piece;
  float *input = nullptr, *output = nullptr, *device_input = nullptr, *device_output = nullptr;
  OK(cudaMallocHost(&input, count * sizeof(float)));
  OK(cudaHostAlloc(&output, count * sizeof(float), cudaHostAllocDefault));
  OK(cudaMalloc(&device_input, count * sizeof(float)));
  OK(cudaMalloc(&device_output, count * sizeof(float)));
  for (int i = 0; i < count; ++i) input[i] = static_cast<float>(i % 1000);

  int least = 0, greatest = 0;
  OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  EXPECT(greatest <= least);
  cudaStream_t stream[streams];
  cudaEvent_t begin, end, all_copied;
  OK(cudaEventCreate(&begin));
  OK(cudaEventCreate(&end));
  OK(cudaEventCreateWithFlags(&all_copied, cudaEventDisableTiming));
  for (int i = 0; i < streams; ++i) {
    OK(cudaStreamCreateWithPriority(&stream[i], cudaStreamNonBlocking, i % 2 ? least : greatest));
  }
  OK(cudaEventRecord(begin, stream[0]));
  for (int i = 0; i < streams; ++i) {
    const int first = i * piece;
    OK(cudaMemcpyAsync(device_input + first, input + first, piece * sizeof(float),
                       cudaMemcpyHostToDevice, stream[i]));
    square<<<(piece + 127) / 128, 128, 0, stream[i]>>>(device_input + first, device_output + first,
                                                       piece);
    LAUNCHED();
    OK(cudaMemcpyAsync(output + first, device_output + first, piece * sizeof(float),
                       cudaMemcpyDeviceToHost, stream[i]));
    OK(cudaLaunchHostFunc(stream[i], piece_done, nullptr));
    OK(cudaStreamAddCallback(stream[i], called_back, &callbacks, 0));
    if (i == 0) continue;
    cudaEvent_t copied;
    OK(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
    OK(cudaEventRecord(copied, stream[i]));
    OK(cudaStreamWaitEvent(stream[0], copied, 0));
    OK(cudaEventDestroy(copied));
  }
  OK(cudaEventRecord(all_copied, stream[0]));
  OK(cudaEventRecord(end, stream[0]));
  OK(cudaEventSynchronize(end));
  OK(cudaEventQuery(all_copied));
  EXPECT(pieces_done == streams);
  EXPECT(callbacks == streams);
  for (int i = 0; i < count; ++i) EXPECT(output[i] == input[i] * input[i]);
  float milliseconds = -1;
  OK(cudaEventElapsedTime(&milliseconds, begin, end));
  EXPECT(milliseconds > 0);
  EXPECT(cudaEventElapsedTime(&milliseconds, begin, all_copied) == cudaErrorInvalidResourceHandle);
  EXPECT(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  for (cudaStream_t each : stream) {
    OK(cudaStreamQuery(each));
    OK(cudaStreamDestroy(each));
  }
  OK(cudaFreeHost(input));
  OK(cudaFreeHost(output));
  std::puts("ok");
}
#endif
