// Work captured from streams into a graph, launched many times, and changed in place by capturing
// it again.
__global__ void axpy(float a, const float* x, float* y, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] += a * x[i];
}

__global__ void square(float* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= values[i];
}

#ifdef __CUDACC__
#include "program.h"

static const int count = 4096, blocks = count / 256;
static const size_t bytes = count * sizeof(float);
static float *x, *y, *z, *host_y, *host_z;
static cudaStream_t stream, side;
static cudaEvent_t fork_event, join_event;

// Two branches: y += a x, and z = z squared. `more` adds a node to one of them.
static cudaGraph_t capture(float a, bool more) {
  cudaGraph_t graph;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  OK(cudaEventRecord(fork_event, stream));
  OK(cudaStreamWaitEvent(side, fork_event, 0));
  axpy<<<blocks, 256, 0, stream>>>(a, x, y, count);
  square<<<blocks, 256, 0, side>>>(z, count);
  if (more) square<<<blocks, 256, 0, side>>>(z, count);
  LAUNCHED();
  OK(cudaEventRecord(join_event, side));
  OK(cudaStreamWaitEvent(stream, join_event, 0));
  OK(cudaMemcpyAsync(host_y, y, bytes, cudaMemcpyDeviceToHost, stream));
  OK(cudaMemcpyAsync(host_z, z, bytes, cudaMemcpyDeviceToHost, stream));
  cudaStreamCaptureStatus status;
  OK(cudaStreamIsCapturing(side, &status));
  EXPECT(status == cudaStreamCaptureStatusActive);
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaStreamIsCapturing(stream, &status));
  EXPECT(status == cudaStreamCaptureStatusNone);
  return graph;
}

static void refusals() {
  cudaGraph_t graph;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
  EXPECT(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  EXPECT(graph == nullptr);
  EXPECT(cudaGetLastError() == cudaErrorStreamCaptureInvalidated);
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  OK(cudaEventRecord(fork_event, stream));
  OK(cudaStreamWaitEvent(side, fork_event, 0));
  square<<<1, 1, 0, side>>>(z, 0);
  EXPECT(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureUnjoined);
  EXPECT(cudaGetLastError() == cudaErrorStreamCaptureUnjoined);
}

// Allocations in a capture belong to the graph.
static void memory_of_the_graph() {
  float* scratch = nullptr;
  cudaMemPool_t pool;
  OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  OK(cudaMallocFromPoolAsync(&scratch, bytes, pool, stream));
  OK(cudaMemcpyAsync(scratch, x, bytes, cudaMemcpyDeviceToDevice, stream));
  square<<<blocks, 256, 0, stream>>>(scratch, count);
  LAUNCHED();
  OK(cudaMemcpyAsync(host_y, scratch, bytes, cudaMemcpyDeviceToHost, stream));
  OK(cudaFreeAsync(scratch, stream));
  cudaGraph_t graph;
  OK(cudaStreamEndCapture(stream, &graph));
  size_t nodes = 0;
  OK(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT(nodes == 5);
  cudaGraphExec_t exec;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  for (int i = 0; i < count; ++i) EXPECT(host_y[i] == static_cast<float>(i % 7) * (i % 7));
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
  OK(cudaDeviceGraphMemTrim(0));
  unsigned long long reserved = 1;
  OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &reserved));
  EXPECT(reserved == 0);
}

int main() {
  std::vector<float> values(count);
  for (int i = 0; i < count; ++i) values[i] = static_cast<float>(i % 7);
  x = upload(values);
  y = upload(std::vector<float>(count, 0.0f));
  z = upload(std::vector<float>(count, 2.0f));
  OK(cudaMallocHost(&host_y, bytes));
  OK(cudaMallocHost(&host_z, bytes));
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  OK(cudaEventCreateWithFlags(&fork_event, cudaEventDisableTiming));
  OK(cudaEventCreateWithFlags(&join_event, cudaEventDisableTiming));

  cudaGraph_t graph = capture(1.0f, false);
  cudaGraphExec_t exec;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphDestroy(graph));
  for (int round = 0; round < 3; ++round) OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  for (int i = 0; i < count; ++i) {
    EXPECT(host_y[i] == 3.0f * values[i]);
    EXPECT(host_z[i] == 256.0f);
  }

  // The same shape with another number goes into the executable graph; another shape does not.
  cudaGraphExecUpdateResultInfo result;
  graph = capture(10.0f, false);
  OK(cudaGraphExecUpdate(exec, graph, &result));
  EXPECT(result.result == cudaGraphExecUpdateSuccess);
  OK(cudaGraphDestroy(graph));
  OK(cudaMemset(z, 0, bytes));
  OK(cudaDeviceSynchronize());
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  for (int i = 0; i < count; ++i) {
    EXPECT(host_y[i] == 13.0f * values[i]);
    EXPECT(host_z[i] == 0.0f);
  }
  graph = capture(10.0f, true);
  EXPECT(cudaGraphExecUpdate(exec, graph, &result) == cudaErrorGraphExecUpdateFailure);
  EXPECT(result.result == cudaGraphExecUpdateErrorTopologyChanged);
  EXPECT(cudaGetLastError() == cudaErrorGraphExecUpdateFailure);
  OK(cudaGraphDestroy(graph));
  OK(cudaGraphExecDestroy(exec));
  refusals();
  memory_of_the_graph();
  OK(cudaStreamDestroy(stream));
  OK(cudaStreamDestroy(side));
  std::puts("ok");
}
#endif
