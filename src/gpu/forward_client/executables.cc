#include "gpu/forward_client/executables.h"

#include <cstdlib>
#include <cstring>

namespace lambent::forward_client {
namespace {

using forward_ring::GraphNodeHead;
using forward_ring::GraphNodeKind;

uint64_t both(uint64_t low, uint64_t high) { return low | high << 32; }

bool make_room(GraphImage* image, size_t bytes) {
  if (image->room - image->size >= bytes) return true;
  size_t room = image->room == 0 ? 4096 : 2 * image->room;
  while (room - image->size < bytes) room *= 2;
  char* larger = static_cast<char*>(std::realloc(image->bytes, room));
  if (larger == nullptr) return false;
  image->bytes = larger;
  image->room = room;
  return true;
}

// Its place in `place`.
CUresult put(GraphImage* image, GraphNodeHead head, const List<uint32_t>& after, const void* data,
             GraphNode* node, uint32_t* place) {
  head.dependencies = static_cast<uint32_t>(after.count());
  *place = static_cast<uint32_t>(image->by_place.count());
  if (*place == forward_ring::kMostGraphNodes) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!make_room(image, forward_ring::graph_node_bytes(after.count(), head.data_bytes)) ||
      !image->by_place.add(node)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  image->size += write_graph_node(image->bytes + image->size, head, after.begin(), data);
  return CUDA_SUCCESS;
}

CUresult give_token(GraphNode& node, const HostCall& call, GraphImage* image, uint64_t* token)
    REQUIRES(state_mutex) {
  *token = forward_ring::kGraphToken | ++state().last_graph_token;
  if (!image->tokens.add(*token)) return CUDA_ERROR_OUT_OF_MEMORY;
  node.token = *token;
  return state().host_calls.add(*token, call) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult describe_kernel(const GraphNode& node, GraphNodeHead* head) REQUIRES(state_mutex) {
  const CUDA_KERNEL_NODE_PARAMS& kernel = node.what.kernel;
  const auto handle =
      kernel.func != nullptr ? kernel.func : reinterpret_cast<CUfunction>(kernel.kern);
  // Its module may have gone since.
  const FunctionRecord* function = state().functions.find(number_of(handle));
  if (function == nullptr || function->parameter_bytes != node.packed_bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  head->kind = GraphNodeKind::kKernel;
  head->data_bytes = node.packed_bytes;
  if (node.cooperative) head->flags |= forward_ring::kGraphNodeCooperative;
  if (node.has_priority) head->flags |= forward_ring::kGraphNodeHasPriority;
  head->priority = node.priority;
  head->arguments[0] = number_of(handle);
  head->arguments[1] = both(kernel.gridDimX, kernel.gridDimY);
  head->arguments[2] = both(kernel.gridDimZ, kernel.blockDimX);
  head->arguments[3] = both(kernel.blockDimY, kernel.blockDimZ);
  head->arguments[4] = kernel.sharedMemBytes;
  return CUDA_SUCCESS;
}

CUresult describe_copy(GraphNode& node, uint64_t context, GraphImage* image, GraphNodeHead* head)
    REQUIRES(state_mutex) {
  RowCopy copy;
  if (const CUresult result = rows_of(node.what.memcpy.copyParams, &copy)) return result;
  if (!copy.is_of_device()) {
    HostCall call;
    call.context = context;
    call.copy = copy;
    call.disabled = !node.enabled;
    head->kind = GraphNodeKind::kHost;
    return give_token(node, call, image, &head->arguments[0]);
  }
  head->kind = GraphNodeKind::kCopy;
  const uint64_t arguments[] = {copy.to,         copy.to_pitch, copy.from,
                                copy.from_pitch, copy.width,    copy.height};
  std::memcpy(head->arguments, arguments, sizeof(arguments));
  return CUDA_SUCCESS;
}

CUresult describe(GraphNode& node, uint64_t context, GraphImage* image, GraphNodeHead* head)
    REQUIRES(state_mutex) {
  switch (node.what.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return describe_kernel(node, head);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return describe_copy(node, context, image, head);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const CUDA_MEMSET_NODE_PARAMS_v2& fill = node.what.memset;
      const uint64_t arguments[] = {fill.dst,         fill.pitch, fill.value,
                                    fill.elementSize, fill.width, fill.height};
      std::memcpy(head->arguments, arguments, sizeof(arguments));
      head->kind = GraphNodeKind::kFill;
      return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      HostCall call;
      call.function = node.what.host.fn;
      call.user_data = node.what.host.userData;
      head->kind = GraphNodeKind::kHost;
      return give_token(node, call, image, &head->arguments[0]);
    }
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      head->kind = node.what.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT ? GraphNodeKind::kWaitEvent
                                                                   : GraphNodeKind::kRecordEvent;
      head->arguments[0] = number_of(node.what.eventWait.event);
      return CUDA_SUCCESS;
    default:
      return CUDA_SUCCESS;
  }
}

CUresult put_graph(Graph& graph, uint64_t context, const uint32_t* entry, GraphImage* image,
                   GraphNode** offender) REQUIRES(state_mutex);

// Its nodes between an empty first and an empty last.
CUresult put_child(GraphNode& node, uint64_t context, const List<uint32_t>& after,
                   GraphImage* image, GraphNode** offender) REQUIRES(state_mutex) {
  uint32_t first = 0;
  if (const CUresult result = put(image, {}, after, nullptr, nullptr, &first)) return result;
  if (const CUresult result = put_graph(*node.child, context, &first, image, offender)) {
    return result;
  }
  List<uint32_t> ends;
  bool good = node.child->nodes.count() > 0 || ends.add(first);
  for (const GraphNode* each : node.child->nodes) {
    if (each->dependents.count() == 0) good &= ends.add(each->place);
  }
  const CUresult result =
      good ? put(image, {}, ends, nullptr, &node, &node.place) : CUDA_ERROR_OUT_OF_MEMORY;
  ends.clear();
  return result;
}

CUresult put_one(GraphNode& node, uint64_t context, const uint32_t* entry, GraphImage* image,
                 GraphNode** offender) REQUIRES(state_mutex) {
  List<uint32_t> after;
  bool good = node.dependencies.count() > 0 || entry == nullptr || after.add(*entry);
  for (const GraphNode* before : node.dependencies) good &= after.add(before->place);
  CUresult result = good ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  if (result == CUDA_SUCCESS && node.child != nullptr) {
    result = put_child(node, context, after, image, offender);
  } else if (result == CUDA_SUCCESS) {
    GraphNodeHead head;
    result = describe(node, context, image, &head);
    if (result == CUDA_SUCCESS) result = put(image, head, after, node.packed, &node, &node.place);
  }
  after.clear();
  if (result != CUDA_SUCCESS && *offender == nullptr) *offender = &node;
  return result;
}

CUresult put_graph(Graph& graph, uint64_t context, const uint32_t* entry, GraphImage* image,
                   GraphNode** offender) REQUIRES(state_mutex) {
  List<GraphNode*> order;
  CUresult result = order_nodes(graph, &order, offender);
  for (size_t i = 0; i < order.count() && result == CUDA_SUCCESS; ++i) {
    result = put_one(*order[i], context, entry, image, offender);
  }
  order.clear();
  return result;
}

bool add_twins(const Graph& graph, Table<GraphNode*>* twins) {
  for (GraphNode* node : graph.nodes) {
    if (!twins->add(node->original, node)) return false;
    if (node->child != nullptr && !add_twins(*node->child, twins)) return false;
  }
  return true;
}

}  // namespace

CUresult write_image(Graph& copy, uint64_t context, GraphImage* image, GraphNode** offender) {
  *offender = nullptr;
  return put_graph(copy, context, nullptr, image, offender);
}

CUresult write_node(GraphNode& node, uint64_t context, GraphImage* image) {
  GraphNodeHead head;
  if (const CUresult result = describe(node, context, image, &head)) return result;
  uint32_t place = 0;
  return put(image, head, {}, node.packed, &node, &place);
}

void free_image(GraphImage* image) {
  std::free(image->bytes);
  image->by_place.clear();
  for (const uint64_t token : image->tokens) retire(token);
  image->tokens.clear();
  *image = {};
}

Executable* find_executable(CUgraphExec handle) {
  Executable** found = state().executables.find(number_of(handle));
  return found == nullptr ? nullptr : *found;
}

GraphNode* find_twin(Executable& executable, CUgraphNode handle) {
  GraphNode** found = executable.twins.find(reinterpret_cast<uint64_t>(handle));
  return found == nullptr ? nullptr : *found;
}

void free_executable(Executable* executable) {
  state().executables.erase(executable->number);
  for (const uint64_t token : executable->tokens) retire(token);
  executable->tokens.clear();
  executable->twins.clear();
  executable->by_place.clear();
  if (executable->graph != nullptr) free_graph(executable->graph);
  std::free(executable);
}

bool fill_twins(Executable& executable, const Table<GraphNode*>* before) {
  if (before == nullptr) return add_twins(*executable.graph, &executable.twins);
  bool good = true;
  auto& old = const_cast<Table<GraphNode*>&>(*before);
  old.for_each([&](uint64_t number, GraphNode* node) {
    GraphNode* twin = executable.by_place[node->place];
    good = good && executable.twins.add(number, twin);
  });
  return good;
}

void retire(uint64_t token) {
  HostCall* call = state().host_calls.find(token);
  if (call == nullptr) return;
  call->retired = true;
  if (call->pending == 0) state().host_calls.erase(token);
}

void came_by(uint64_t token) {
  HostCall* call = state().host_calls.find(token);
  if (call == nullptr) return;
  if (call->pending > 0) --call->pending;
  if (call->retired && call->pending == 0) state().host_calls.erase(token);
}

}  // namespace lambent::forward_client
