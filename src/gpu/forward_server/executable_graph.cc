#include "gpu/forward_server/executable_graph.h"

#include <algorithm>
#include <utility>

#include "gpu/forward_server/device_work.h"

namespace lambent::forward_server {
namespace {

using forward_ring::GraphNodeKind;

uint32_t low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t high(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

// Holds what the driver reads while it is told of a kernel.
struct KernelRequest {
  explicit KernelRequest(const GraphNode& node) {
    const auto* a = node.head.arguments;
    for (const auto& place : *node.places) {
      pointers.push_back(const_cast<char*>(node.parameters.data()) + place.offset);
    }
    request.func = node.function;
    request.gridDimX = low(a[1]);
    request.gridDimY = high(a[1]);
    request.gridDimZ = low(a[2]);
    request.blockDimX = high(a[2]);
    request.blockDimY = low(a[3]);
    request.blockDimZ = high(a[3]);
    request.sharedMemBytes = low(a[4]);
    request.kernelParams = pointers.data();
  }
  std::vector<void*> pointers;
  CUDA_KERNEL_NODE_PARAMS request{};
};

CUDA_MEMCPY3D copy_of(const GraphNode& node) {
  const auto& [to, to_pitch, from, from_pitch, width, height] = node.head.arguments;
  CUDA_MEMCPY3D request{};
  request.srcMemoryType = request.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  request.srcDevice = from;
  request.srcPitch = height == 1 ? width : from_pitch;
  request.dstDevice = to;
  request.dstPitch = height == 1 ? width : to_pitch;
  request.WidthInBytes = width;
  request.Height = height;
  request.Depth = 1;
  return request;
}

CUDA_MEMSET_NODE_PARAMS fill_of(const GraphNode& node) {
  const auto& [to, pitch, value, element, width, height] = node.head.arguments;
  return {to, height == 1 ? 0 : pitch, low(value), low(element), width, height};
}

CUDA_BATCH_MEM_OP_NODE_PARAMS wait_of(CUcontext context, const ExecutableGraph::HostPlace& place,
                                      uint32_t turn, CUstreamBatchMemOpParams* operation) {
  *operation = {};
  operation->waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operation->waitValue.address = place.address;
  operation->waitValue.value = turn;
  operation->waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  return {context, 1, operation, 0};
}

bool has_same_structure(const GraphNode& one, const GraphNode& other) {
  return one.dependencies == other.dependencies;
}

CUcontext current(const cuda::Driver& driver) {
  CUcontext context = nullptr;
  driver->ctx_get_current(&context);
  return context;
}

}  // namespace

CUresult ExecutableGraph::make(std::vector<GraphNode> nodes, std::vector<HostPlace> places,
                               uint64_t flags, uint64_t* wrong) {
  nodes_ = std::move(nodes);
  places_ = std::move(places);
  if (const CUresult result = build(nodes_, &graph_, &handles_, &places_, wrong)) return result;
  return driver_->graph_instantiate(&exec_, graph_, flags);
}

void ExecutableGraph::release() {
  if (exec_ != nullptr) driver_->graph_exec_destroy(std::exchange(exec_, nullptr));
  if (graph_ != nullptr) driver_->graph_destroy(std::exchange(graph_, nullptr));
  if (notifier_ != nullptr) driver_->stream_destroy(std::exchange(notifier_, nullptr));
  nodes_.clear();
  places_.clear();
}

CUresult ExecutableGraph::build(const std::vector<GraphNode>& nodes, CUgraph* graph,
                                std::vector<CUgraphNode>* handles, std::vector<HostPlace>* places,
                                uint64_t* wrong) const {
  if (const CUresult result = driver_->graph_create(graph, 0)) return result;
  std::vector<CUgraphNode> after;
  size_t host_nodes = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    after.clear();
    for (const uint32_t dependency : nodes[i].dependencies) after.push_back((*handles)[dependency]);
    CUgraphNode handle = nullptr;
    CUresult result = CUDA_SUCCESS;
    if (nodes[i].head.kind == GraphNodeKind::kHost) {
      HostPlace& place = (*places)[host_nodes++];
      place.node = static_cast<uint32_t>(i);
      result = add_host(*graph, after, place);
      handle = place.wait;
    } else {
      result = add(*graph, nodes[i], after, &handle);
    }
    *wrong = i;
    if (result != CUDA_SUCCESS) return result;
    handles->push_back(handle);
  }
  *wrong = forward_ring::kNoGraphNode;
  return CUDA_SUCCESS;
}

CUresult ExecutableGraph::add(CUgraph graph, const GraphNode& node, std::vector<CUgraphNode>& after,
                              CUgraphNode* handle) const {
  switch (node.head.kind) {
    case GraphNodeKind::kKernel: {
      const KernelRequest kernel(node);
      CUresult result = driver_->graph_add_kernel_node(handle, graph, after.data(), after.size(),
                                                       &kernel.request);
      CUkernelNodeAttrValue value{};
      if (result == CUDA_SUCCESS && (node.head.flags & forward_ring::kGraphNodeCooperative) != 0) {
        value.cooperative = 1;
        result = driver_->graph_kernel_node_set_attribute(*handle, CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                                          &value);
      }
      if (result == CUDA_SUCCESS && (node.head.flags & forward_ring::kGraphNodeHasPriority) != 0) {
        value = {};
        value.priority = node.head.priority;
        result =
            driver_->graph_kernel_node_set_attribute(*handle, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value);
      }
      return result;
    }
    case GraphNodeKind::kCopy: {
      const CUDA_MEMCPY3D request = copy_of(node);
      return driver_->graph_add_memcpy_node(handle, graph, after.data(), after.size(), &request,
                                            current(driver_));
    }
    case GraphNodeKind::kFill: {
      const CUDA_MEMSET_NODE_PARAMS request = fill_of(node);
      return driver_->graph_add_memset_node(handle, graph, after.data(), after.size(), &request,
                                            current(driver_));
    }
    case GraphNodeKind::kRecordEvent:
      return driver_->graph_add_event_record_node(handle, graph, after.data(), after.size(),
                                                  node.event.get());
    case GraphNodeKind::kWaitEvent:
      return driver_->graph_add_event_wait_node(handle, graph, after.data(), after.size(),
                                                node.event.get());
    case GraphNodeKind::kEmpty:
    case GraphNodeKind::kHost:
      break;
  }
  return driver_->graph_add_empty_node(handle, graph, after.data(), after.size());
}

// An event says that the function may run; a wait, which each launch gives its own turn, holds what
// comes after it.
CUresult ExecutableGraph::add_host(CUgraph graph, const std::vector<CUgraphNode>& after,
                                   HostPlace& place) const {
  CUgraphNode due = nullptr;
  const CUresult result = driver_->graph_add_event_record_node(&due, graph, after.data(),
                                                               after.size(), place.due.get());
  if (result != CUDA_SUCCESS) return result;
  CUstreamBatchMemOpParams operation;
  const auto request = wait_of(current(driver_), place, 0, &operation);
  return driver_->graph_add_batch_mem_op_node(&place.wait, graph, &due, 1, &request);
}

CUresult ExecutableGraph::update(std::vector<GraphNode> nodes, CUgraphExecUpdateResult* how,
                                 uint64_t* wrong) {
  *wrong = forward_ring::kNoGraphNode;
  *how = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  if (nodes.size() != nodes_.size()) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  for (size_t i = 0; i < nodes.size(); ++i) {
    *wrong = i;
    // The driver pairs nodes by what they depend on. Only where that gives each the one of the same
    // number is it known which gate and which function belong together.
    if (!has_same_structure(nodes[i], nodes_[i])) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    if (nodes[i].head.kind == nodes_[i].head.kind) continue;
    *how = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  CUgraph graph = nullptr;
  std::vector<CUgraphNode> handles;
  std::vector<HostPlace> places = places_;
  *how = CU_GRAPH_EXEC_UPDATE_ERROR;
  CUresult result = build(nodes, &graph, &handles, &places, wrong);
  if (result == CUDA_SUCCESS) {
    CUgraphExecUpdateResultInfo info{};
    result = driver_->graph_exec_update(exec_, graph, &info);
    *how = info.result;
    const auto found = std::find(handles.begin(), handles.end(), info.errorNode);
    if (result != CUDA_SUCCESS && found != handles.end()) {
      *wrong = static_cast<uint64_t>(found - handles.begin());
    }
  }
  if (graph != nullptr) driver_->graph_destroy(graph);
  if (result != CUDA_SUCCESS) return result;
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i].is_enabled = nodes_[i].is_enabled;
  nodes_ = std::move(nodes);
  return CUDA_SUCCESS;
}

CUresult ExecutableGraph::set_node(uint32_t index, GraphNode node) {
  if (index >= nodes_.size()) return CUDA_ERROR_INVALID_VALUE;
  GraphNode& old = nodes_[index];
  if (node.head.kind != old.head.kind) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  CUgraphNode handle = handles_[index];
  switch (node.head.kind) {
    case GraphNodeKind::kKernel: {
      const KernelRequest kernel(node);
      result = driver_->graph_exec_kernel_node_set_params(exec_, handle, &kernel.request);
      break;
    }
    case GraphNodeKind::kCopy: {
      const CUDA_MEMCPY3D request = copy_of(node);
      result =
          driver_->graph_exec_memcpy_node_set_params(exec_, handle, &request, current(driver_));
      break;
    }
    case GraphNodeKind::kFill: {
      const CUDA_MEMSET_NODE_PARAMS request = fill_of(node);
      result =
          driver_->graph_exec_memset_node_set_params(exec_, handle, &request, current(driver_));
      break;
    }
    case GraphNodeKind::kRecordEvent:
      result = driver_->graph_exec_event_record_node_set_event(exec_, handle, node.event.get());
      break;
    case GraphNodeKind::kWaitEvent:
      result = driver_->graph_exec_event_wait_node_set_event(exec_, handle, node.event.get());
      break;
    case GraphNodeKind::kHost:  // only its token
      result = CUDA_SUCCESS;
      break;
    case GraphNodeKind::kEmpty:
      break;
  }
  if (result != CUDA_SUCCESS) return result;
  node.dependencies = std::move(old.dependencies);
  node.is_enabled = old.is_enabled;
  old = std::move(node);
  return CUDA_SUCCESS;
}

CUresult ExecutableGraph::enable_node(uint32_t index, bool enabled) {
  if (index >= nodes_.size()) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = driver_->graph_node_set_enabled(exec_, handles_[index], enabled ? 1 : 0);
  if (result == CUDA_SUCCESS) nodes_[index].is_enabled = enabled;
  return result;
}

CUresult ExecutableGraph::set_turn(const HostPlace& place, uint32_t turn) {
  CUstreamBatchMemOpParams operation;
  const auto request = wait_of(current(driver_), place, turn, &operation);
  return driver_->graph_exec_batch_mem_op_node_set_params(exec_, place.wait, &request);
}

CUresult ExecutableGraph::await_last(CUstream stream) {
  if (last_ != nullptr) return driver_->stream_wait_event(stream, last_.get(), 0);
  return make_event(driver_, CU_EVENT_DISABLE_TIMING, &last_);
}

CUresult ExecutableGraph::launch(CUstream stream) {
  // The driver sees to its own.
  CUresult result = CUDA_SUCCESS;
  if (last_ == nullptr || last_was_one_by_one_) result = await_last(stream);
  if (result == CUDA_SUCCESS) result = driver_->graph_launch(exec_, stream);
  last_was_one_by_one_ = false;
  return result == CUDA_SUCCESS ? driver_->event_record(last_.get(), stream) : result;
}

CUresult ExecutableGraph::launch_one_by_one(CUstream stream,
                                            const std::function<CUresult(const HostPlace&)>& hold) {
  CUresult result = await_last(stream);
  size_t host_nodes = 0;
  for (const GraphNode& node : nodes_) {
    if (result != CUDA_SUCCESS) return result;
    if (node.head.kind == GraphNodeKind::kHost) {
      result = hold(places_[host_nodes++]);
    } else if (node.is_enabled) {
      result = queue(node, stream);
    }
  }
  last_was_one_by_one_ = true;
  return result == CUDA_SUCCESS ? driver_->event_record(last_.get(), stream) : result;
}

CUresult ExecutableGraph::queue(const GraphNode& node, CUstream stream) const {
  switch (node.head.kind) {
    case GraphNodeKind::kKernel: {
      KernelRequest kernel(node);
      const CUDA_KERNEL_NODE_PARAMS& r = kernel.request;
      if ((node.head.flags & forward_ring::kGraphNodeCooperative) != 0) {
        return driver_->launch_cooperative_kernel(r.func, r.gridDimX, r.gridDimY, r.gridDimZ,
                                                  r.blockDimX, r.blockDimY, r.blockDimZ,
                                                  r.sharedMemBytes, stream, r.kernelParams);
      }
      return driver_->launch_kernel(r.func, r.gridDimX, r.gridDimY, r.gridDimZ, r.blockDimX,
                                    r.blockDimY, r.blockDimZ, r.sharedMemBytes, stream,
                                    r.kernelParams, nullptr);
    }
    case GraphNodeKind::kCopy:
      return queue_copy(driver_, stream, node.head.arguments);
    case GraphNodeKind::kFill:
      return queue_fill(driver_, stream, node.head.arguments);
    case GraphNodeKind::kRecordEvent:
      return driver_->event_record(node.event.get(), stream);
    case GraphNodeKind::kWaitEvent:
      return driver_->stream_wait_event(stream, node.event.get(), 0);
    case GraphNodeKind::kEmpty:
    case GraphNodeKind::kHost:
      break;
  }
  return CUDA_SUCCESS;
}

bool ExecutableGraph::uses_module(uint64_t module) const {
  return std::any_of(nodes_.begin(), nodes_.end(), [module](const GraphNode& node) {
    return node.head.kind == GraphNodeKind::kKernel && node.module == module;
  });
}

CUresult ExecutableGraph::notifier(CUstream* stream) {
  if (notifier_ == nullptr) {
    const CUresult result = driver_->stream_create(&notifier_, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS) return result;
  }
  *stream = notifier_;
  return CUDA_SUCCESS;
}

}  // namespace lambent::forward_server
