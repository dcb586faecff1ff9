// A graph made node by node: fills, copies, kernels, the host, a graph within the graph, a loop
// that a kernel ends; and nodes changed in the executable graph.
__global__ void add(int* values, int count, int what) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] += what;
}

__global__ void halve_while_large(int* value, cudaGraphConditionalHandle loop) {
  *value /= 2;
  cudaGraphSetConditional(loop, *value > 10);
}

#ifdef __CUDACC__
#include "program.h"

static void count_call(void* calls) { ++*static_cast<int*>(calls); }

static cudaKernelNodeParams kernel_node(void* function, int blocks, void** arguments) {
  cudaKernelNodeParams parameters{};
  parameters.func = function;
  parameters.gridDim = dim3(blocks);
  parameters.blockDim = dim3(128);
  parameters.kernelParams = arguments;
  return parameters;
}

static void straight_line(cudaStream_t stream) {
  int count = 1000, one = 1, calls = 0;
  int *device = nullptr, *back = nullptr;
  OK(cudaMalloc(&device, count * sizeof(int)));
  OK(cudaMallocHost(&back, count * sizeof(int)));
  cudaGraph_t graph, child;
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphCreate(&child, 0));

  cudaMemsetParams fill{};
  fill.dst = device;
  fill.elementSize = sizeof(int);
  fill.width = count;
  fill.height = 1;
  fill.value = 100;
  cudaGraphNode_t filled, added, nested, copied, told;
  OK(cudaGraphAddMemsetNode(&filled, graph, nullptr, 0, &fill));
  void* arguments[] = {&device, &count, &one};
  cudaKernelNodeParams kernel =
      kernel_node(reinterpret_cast<void*>(add), (count + 127) / 128, arguments);
  OK(cudaGraphAddKernelNode(&added, graph, &filled, 1, &kernel));
  cudaGraphNode_t inner;
  OK(cudaGraphAddKernelNode(&inner, child, nullptr, 0, &kernel));
  OK(cudaGraphAddChildGraphNode(&nested, graph, &added, 1, child));
  OK(cudaGraphAddMemcpyNode1D(&copied, graph, &nested, 1, back, device, count * sizeof(int),
                              cudaMemcpyDeviceToHost));
  cudaHostNodeParams host{count_call, &calls};
  OK(cudaGraphAddHostNode(&told, graph, &copied, 1, &host));

  cudaGraphNodeType type;
  OK(cudaGraphNodeGetType(nested, &type));
  EXPECT(type == cudaGraphNodeTypeGraph);
  size_t nodes = 0, roots = 0;
  OK(cudaGraphGetNodes(graph, nullptr, &nodes));
  OK(cudaGraphGetRootNodes(graph, nullptr, &roots));
  EXPECT(nodes == 5 && roots == 1);
  cudaKernelNodeParams found;
  OK(cudaGraphKernelNodeGetParams(added, &found));
  EXPECT(found.func == reinterpret_cast<void*>(add) && found.blockDim.x == 128);
  cudaGraphExec_t exec;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  for (int i = 0; i < count; ++i) EXPECT(back[i] == 102);
  EXPECT(calls == 1);

  int fifty = 50;
  void* changed[] = {&device, &count, &fifty};
  kernel.kernelParams = changed;
  OK(cudaGraphExecKernelNodeSetParams(exec, added, &kernel));
  fill.value = 0;
  OK(cudaGraphExecMemsetNodeSetParams(exec, filled, &fill));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  for (int i = 0; i < count; ++i) EXPECT(back[i] == 51);
  // What is switched off does nothing, and is passed by.
  OK(cudaGraphNodeSetEnabled(exec, added, 0));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  for (int i = 0; i < count; ++i) EXPECT(back[i] == 1);
  EXPECT(calls == 3);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(child));
  OK(cudaGraphDestroy(graph));
  OK(cudaFree(device));
  OK(cudaFreeHost(back));
}

static void loop(cudaStream_t stream) {
  int* value = upload(std::vector<int>{1000});
  cudaGraph_t graph;
  OK(cudaGraphCreate(&graph, 0));
  cudaGraphConditionalHandle handle;
  OK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = handle;
  parameters.conditional.type = cudaGraphCondTypeWhile;
  parameters.conditional.size = 1;
  cudaGraphNode_t node, inner;
  OK(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters));
  cudaGraph_t body = parameters.conditional.phGraph_out[0];
  void* arguments[] = {&value, &handle};
  cudaKernelNodeParams kernel =
      kernel_node(reinterpret_cast<void*>(halve_while_large), 1, arguments);
  kernel.blockDim = dim3(1);
  OK(cudaGraphAddKernelNode(&inner, body, nullptr, 0, &kernel));
  cudaGraphExec_t exec;
  OK(cudaGraphInstantiate(&exec, graph, 0));
  OK(cudaGraphLaunch(exec, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT(download(value, 1)[0] == 7);
  OK(cudaGraphExecDestroy(exec));
  OK(cudaGraphDestroy(graph));
  OK(cudaFree(value));
}

int main() {
  cudaStream_t stream;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  straight_line(stream);
  loop(stream);
  OK(cudaStreamDestroy(stream));
  std::puts("ok");
}
#endif
