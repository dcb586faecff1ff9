// The graphs of working_set_probe: one for each way in which nodes name memory, and one for each
// way in which an executable graph gets other parameters.
#include <string.h>

#include "gpu/shim/testing/working_set_probe.h"

namespace {

struct Parameters {
  CUdeviceptr words = 0;
  uint64_t count = 0;
  void* pointers[2] = {&words, &count};
};

CUgraphExec graph = nullptr;
CUgraph description = nullptr;
CUgraphNode node = nullptr;    // of the description, that says which piece it is
bool is_fill = false;          // it writes a value that is set before each launch
std::vector<uint32_t> source;  // what a copy brings
CUdeviceptr table = 0;         // of addresses, on the device
CUdeviceptr table_source = 0;  // what stands in it once it was uploaded

void name(Parameters& parameters, size_t i) {
  parameters.words = pieces[i].address;
  parameters.count = pieces[i].words;
}

CUDA_KERNEL_NODE_PARAMS kernel_of(Parameters& parameters) {
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  kernel.func = increment;
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = parameters.pointers;
  return kernel;
}

CUgraph with_kernel_node(size_t i, CUgraphNode* made) {
  CUgraph graph_of_one = nullptr;
  Parameters parameters;
  name(parameters, i);
  const CUDA_KERNEL_NODE_PARAMS kernel = kernel_of(parameters);
  must(cuGraphCreate(&graph_of_one, 0));
  must(cuGraphAddKernelNode_v2(made, graph_of_one, nullptr, 0, &kernel));
  return graph_of_one;
}

CUgraph captured(size_t i) {
  CUstream stream = nullptr;
  CUgraph made = nullptr;
  Parameters parameters;
  name(parameters, i);
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  must(cuLaunchKernel(increment, 1, 1, 1, 1, 1, 1, 0, stream, parameters.pointers, nullptr));
  must(cuStreamEndCapture(stream, &made));
  must(cuStreamDestroy_v2(stream));
  return made;
}

CUgraph with_child(size_t i) {
  CUgraph outer = nullptr;
  CUgraphNode inner = nullptr;
  const CUgraph child = with_kernel_node(i, &inner);
  must(cuGraphCreate(&outer, 0));
  must(cuGraphAddChildGraphNode(&node, outer, nullptr, 0, child));
  must(cuGraphDestroy(child));
  return outer;
}

CUDA_MEMCPY3D upload_to(CUdeviceptr to, const void* from, size_t bytes) {
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = from;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = to;
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  return copy;
}

CUDA_MEMCPY3D copy_to(size_t i) {
  source.resize(pieces[i].words);
  return upload_to(pieces[i].address, source.data(), source.size() * sizeof(uint32_t));
}

CUgraph with_copy(size_t i) {
  CUgraph made = nullptr;
  const CUDA_MEMCPY3D copy = copy_to(i);
  must(cuGraphCreate(&made, 0));
  must(cuGraphAddMemcpyNode(&node, made, nullptr, 0, &copy, nullptr));
  return made;
}

// Of the shape of with_copy's, by a stream.
CUgraph captured_copy(size_t i) {
  CUstream stream = nullptr;
  CUgraph made = nullptr;
  source.resize(pieces[i].words);
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  must(cuMemcpyHtoDAsync_v2(pieces[i].address, source.data(), source.size() * sizeof(uint32_t),
                            stream));
  must(cuStreamEndCapture(stream, &made));
  must(cuStreamDestroy_v2(stream));
  size_t count = 1;
  must(cuGraphGetNodes(made, &node, &count));
  return made;
}

CUDA_MEMSET_NODE_PARAMS fill_of(size_t i) {
  return {pieces[i].address, 0, pieces[i].expected + 1, 4, pieces[i].words, 1};
}

CUgraph with_fill(size_t i) {
  CUgraph made = nullptr;
  const CUDA_MEMSET_NODE_PARAMS fill = fill_of(i);
  must(cuGraphCreate(&made, 0));
  must(cuGraphAddMemsetNode(&node, made, nullptr, 0, &fill, nullptr));
  is_fill = true;
  return made;
}

// What sets the memory to what it will be: a stream's fill, whose value is set before each launch.
CUgraph captured_fill(size_t i) {
  CUstream stream = nullptr;
  CUgraph made = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  must(cuMemsetD32Async(pieces[i].address, pieces[i].expected + 1, pieces[i].words, stream));
  must(cuStreamEndCapture(stream, &made));
  must(cuStreamDestroy_v2(stream));
  size_t count = 1;
  must(cuGraphGetNodes(made, &node, &count));
  is_fill = true;
  return made;
}

// The table is uploaded by the graph itself; then a kernel finds the piece there.
CUgraph with_table(size_t i) {
  CUgraph made = nullptr;
  CUgraphNode upload = nullptr;
  if (table == 0) must(cuMemAlloc_v2(&table, sizeof(table_source)));
  const CUDA_MEMCPY3D copy = upload_to(table, &table_source, sizeof(table_source));
  must(cuGraphCreate(&made, 0));
  must(cuGraphAddMemcpyNode(&upload, made, nullptr, 0, &copy, nullptr));
  uint64_t index = 0;
  uint64_t count = pieces[i].words;
  void* pointers[] = {&table, &index, &count};
  Parameters unused;
  CUDA_KERNEL_NODE_PARAMS kernel = kernel_of(unused);
  kernel.func = increment_through;
  kernel.kernelParams = pointers;
  must(cuGraphAddKernelNode_v2(&node, made, &upload, 1, &kernel));
  return made;
}

CUgraph with_host_function(size_t i) {
  const CUgraph made = with_kernel_node(i, &node);
  CUgraphNode host = nullptr;
  CUDA_HOST_NODE_PARAMS call = {};
  call.fn = [](void*) {};
  must(cuGraphAddHostNode(&host, made, nullptr, 0, &call));
  return made;
}

// A condition that is always met; what is to be done then is added to the body.
CUgraph with_body(CUgraph* body) {
  CUcontext context = nullptr;
  CUgraph made = nullptr;
  CUgraphConditionalHandle handle = 0;
  must(cuCtxGetCurrent(&context));
  must(cuGraphCreate(&made, 0));
  must(cuGraphConditionalHandleCreate(&handle, made, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
  CUgraphNodeParams condition;
  memset(&condition, 0, sizeof(condition));
  condition.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  condition.conditional.handle = handle;
  condition.conditional.type = CU_GRAPH_COND_TYPE_IF;
  condition.conditional.size = 1;
  condition.conditional.ctx = context;
  must(cuGraphAddNode_v2(&node, made, nullptr, nullptr, 0, &condition));
  *body = condition.conditional.phGraph_out[0];
  return made;
}

CUgraph with_condition(size_t i) {
  CUgraph body = nullptr;
  CUgraphNode inner = nullptr;
  const CUgraph made = with_body(&body);
  Parameters parameters;
  name(parameters, i);
  const CUDA_KERNEL_NODE_PARAMS kernel = kernel_of(parameters);
  must(cuGraphAddKernelNode_v2(&inner, body, nullptr, 0, &kernel));
  return made;
}

CUgraph with_body_copy(size_t i) {
  CUgraph body = nullptr;
  CUgraphNode inner = nullptr;
  const CUgraph made = with_body(&body);
  CUgraphNodeParams given;
  memset(&given, 0, sizeof(given));
  given.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  given.memcpy.copyParams = copy_to(i);
  must(cuCtxGetCurrent(&given.memcpy.copyCtx));
  must(cuGraphAddNode_v2(&inner, body, nullptr, nullptr, 0, &given));
  return made;
}

CUgraph with_captured_body(size_t i) {
  CUgraph body = nullptr;
  CUstream stream = nullptr;
  const CUgraph made = with_body(&body);
  source.resize(pieces[i].words);
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must(cuStreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0,
                                   CU_STREAM_CAPTURE_MODE_RELAXED));
  must(cuMemcpyHtoDAsync_v2(pieces[i].address, source.data(), source.size() * sizeof(uint32_t),
                            stream));
  must(cuStreamEndCapture(stream, &body));
  must(cuStreamDestroy_v2(stream));
  return made;
}

void make(CUgraph made) {
  if (graph != nullptr) must(cuGraphExecDestroy(graph));
  if (description != nullptr) must(cuGraphDestroy(description));
  description = made;
  must(cuGraphInstantiateWithFlags(&graph, description, 0));
}

void change_kernel(size_t i) {
  Parameters parameters;
  name(parameters, i);
  const CUDA_KERNEL_NODE_PARAMS kernel = kernel_of(parameters);
  must(cuGraphExecKernelNodeSetParams_v2(graph, node, &kernel));
}

void change_node(size_t i) {
  Parameters parameters;
  name(parameters, i);
  CUgraphNodeParams given;
  memset(&given, 0, sizeof(given));
  given.type = CU_GRAPH_NODE_TYPE_KERNEL;
  given.kernel = kernel_of(parameters);
  must(cuGraphExecNodeSetParams(graph, node, &given));
}

void change_copy(size_t i) {
  CUcontext context = nullptr;
  const CUDA_MEMCPY3D copy = copy_to(i);
  must(cuCtxGetCurrent(&context));
  must(cuGraphExecMemcpyNodeSetParams(graph, node, &copy, context));
}

void change_fill(size_t i) {
  CUcontext context = nullptr;
  const CUDA_MEMSET_NODE_PARAMS fill = fill_of(i);
  must(cuCtxGetCurrent(&context));
  must(cuGraphExecMemsetNodeSetParams(graph, node, &fill, context));
}

void change_child(size_t i) {
  CUgraphNode inner = nullptr;
  const CUgraph child = with_kernel_node(i, &inner);
  must(cuGraphExecChildGraphNodeSetParams(graph, node, child));
  must(cuGraphDestroy(child));
}

// To another description of the same shape.
void change_to(CUgraph other) {
  CUgraphExecUpdateResultInfo info;
  must(cuGraphExecUpdate_v2(graph, other, &info));
  must(cuGraphDestroy(other));
}

void change_all(size_t i) {
  CUgraphNode inner = nullptr;
  change_to(with_kernel_node(i, &inner));
}

// `make` sets the node to one of the other description, and the executable graph knows it by that
// of its own.
void change_all_by(CUgraph (*make)(size_t), size_t i) {
  const CUgraphNode own = node;
  change_to(make(i));
  node = own;
}

// A description that was made before, and has been changed since.
void change_description(size_t i) {
  CUgraphExecUpdateResultInfo info;
  const CUDA_MEMCPY3D copy = copy_to(i);
  must(cuGraphMemcpyNodeSetParams(node, &copy));
  must(cuGraphExecUpdate_v2(graph, description, &info));
}

// By one that it cannot become, which the driver refuses.
void change_in_vain(size_t i) {
  CUgraphExecUpdateResultInfo info;
  CUgraphNode inner = nullptr;
  const CUgraph other = with_kernel_node(i, &inner);
  CUgraphNode more = nullptr;
  must(cuGraphAddEmptyNode(&more, other, nullptr, 0));
  if (cuGraphExecUpdate_v2(graph, other, &info) == CUDA_SUCCESS) must(-1);
  must(cuGraphDestroy(other));
}

}  // namespace

bool obey_about_graphs(const char* word, size_t piece) {
  const struct {
    const char* word;
    CUgraph (*make)(size_t);
  } makes[] = {{"make_captured", captured},
               {"make_kernel", [](size_t i) { return with_kernel_node(i, &node); }},
               {"make_child", with_child},
               {"make_copy", with_copy},
               {"make_fill", with_fill},
               {"capture_copy", captured_copy},
               {"capture_fill", captured_fill},
               {"make_table", with_table},
               {"make_host_function", with_host_function},
               {"make_body", with_body_copy},
               {"capture_body", with_captured_body},
               {"make_condition", with_condition}};
  const struct {
    const char* word;
    void (*change)(size_t);
  } changes[] = {{"change_kernel", change_kernel},
                 {"change_node", change_node},
                 {"change_copy", change_copy},
                 {"change_fill", change_fill},
                 {"change_child", change_child},
                 {"change_all", change_all},
                 {"change_in_vain", change_in_vain},
                 {"change_description", change_description},
                 {"change_body", [](size_t i) { change_all_by(with_body_copy, i); }},
                 {"recapture_body", [](size_t i) { change_all_by(with_captured_body, i); }},
                 {"recapture_copy", [](size_t i) { change_all_by(captured_copy, i); }},
                 {"recapture_fill", [](size_t i) { change_all_by(captured_fill, i); }}};
  for (const auto& each : makes) {
    if (strcmp(word, each.word) != 0) continue;
    is_fill = false;
    make(each.make(piece));
    say("graph", 1);
    return true;
  }
  for (const auto& each : changes) {
    if (strcmp(word, each.word) != 0) continue;
    each.change(piece);
    say("graph", 1);
    return true;
  }
  return false;
}

void launch_graph(size_t i) {
  for (uint32_t& each : source) each = pieces[i].expected + 1;
  if (is_fill) change_fill(i);
  table_source = pieces[i].address;
  must(cuGraphLaunch(graph, nullptr));
}
