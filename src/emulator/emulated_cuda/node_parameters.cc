#include "emulator/emulated_cuda/node_parameters.h"

#include <algorithm>

#include "emulator/emulated_cuda/process.h"

namespace lambent::emulated_cuda {

namespace {

// The context that is named, or the current one.
CUresult find_context(Process& process, CUcontext handle, std::shared_ptr<Context>* context) {
  if (!handle) {
    Process* same;
    return current(&same, context);
  }
  *context = process.contexts.find(handle);
  return *context ? process.health_of(**context) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult plan_kernel(Process& process, const CUDA_KERNEL_NODE_PARAMS& given, NodePlan* plan) {
  if (CUresult result = find_context(process, given.ctx, &plan->context)) return result;
  KernelLaunch launch;
  const void* handle =
      given.func ? static_cast<const void*>(given.func) : static_cast<const void*>(given.kern);
  if (CUresult result = find_function(process, *plan->context, handle, &launch.function)) {
    return result;
  }
  if (void* own = launch.function->module->context; own && own != plan->context.get()) {
    // A function of a module says itself where it belongs.
    plan->context = process.contexts.find(own);
    if (!plan->context) return CUDA_ERROR_INVALID_CONTEXT;
  }
  launch.shape = {{given.gridDimX, given.gridDimY, given.gridDimZ},
                  {given.blockDimX, given.blockDimY, given.blockDimZ},
                  given.sharedMemBytes};
  if (CUresult result = check_launch(process, *plan->context, *launch.function, launch.shape)) {
    return result;
  }
  if (CUresult result = copy_parameters(*launch.function->kernel, given.kernelParams, given.extra,
                                        &launch.parameters)) {
    return result;
  }
  plan->work = Operation(std::move(launch));
  return CUDA_SUCCESS;
}

CUresult plan_copy(Process& process, const CUDA_MEMCPY3D& given, CUcontext context,
                   NodePlan* plan) {
  if (CUresult result = find_context(process, context, &plan->context)) return result;
  Copy copy{};
  if (CUresult result = make_copy(process, given, &copy)) return result;
  if (copy.shape.width == 0) return CUDA_ERROR_INVALID_VALUE;
  plan->copy_request = given;
  plan->work = Operation(copy);
  return CUDA_SUCCESS;
}

CUresult plan_fill(Process& process, const CUDA_MEMSET_NODE_PARAMS_v2& given, NodePlan* plan) {
  if (CUresult result = find_context(process, given.ctx, &plan->context)) return result;
  Fill fill{};
  if (CUresult result = make_fill(
          process,
          {given.dst, given.pitch, given.value, given.elementSize, given.width, given.height},
          &fill)) {
    return result;
  }
  plan->work = Operation(fill);
  return CUDA_SUCCESS;
}

template <class EventOperation>
CUresult plan_event(Process& process, CUevent handle, NodePlan* plan) {
  auto event = handle ? process.events.find(handle) : nullptr;
  if (!event) return CUDA_ERROR_INVALID_VALUE;
  plan->work = Operation(EventOperation{std::move(event), true});
  return CUDA_SUCCESS;
}

CUresult plan_memory_operations(Process& process, const CUDA_BATCH_MEM_OP_NODE_PARAMS& given,
                                NodePlan* plan) {
  if (CUresult result = find_context(process, given.ctx, &plan->context)) return result;
  if (!given.paramArray || given.count == 0 || given.count > 256 || given.flags) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  MemoryOperations operations{{given.paramArray, given.paramArray + given.count}};
  if (CUresult result = check(process, operations)) return result;
  plan->work = Operation(std::move(operations));
  return CUDA_SUCCESS;
}

CUresult plan_child(GraphIndex& index, Graph& graph, const CUDA_CHILD_GRAPH_NODE_PARAMS& given,
                    NodePlan* plan) REQUIRES(index.mutex) {
  Graph* child = index.graph(given.graph);
  if (!child || child->capturing || child->body) return CUDA_ERROR_INVALID_VALUE;
  for (Graph* above = &graph; above; above = above->parent) {
    if (above == child) return CUDA_ERROR_INVALID_VALUE;
  }
  // Only one instantiation of a conditional node may exist, so that it cannot be in two graphs.
  if (child->has_conditionals() && !graph.body) return CUDA_ERROR_INVALID_VALUE;
  if (given.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) {
    auto owned = index.owned.find(child);
    if (owned == index.owned.end() || child->executables > 0) return CUDA_ERROR_INVALID_VALUE;
    plan->work = ChildGraph{owned->second};
    index.owned.erase(owned);
  } else if (given.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE) {
    if (child->has_memory_nodes()) return CUDA_ERROR_INVALID_VALUE;
    plan->work = ChildGraph{child->clone(&index, &index.next_id, nullptr)};
  } else {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::get<ChildGraph>(plan->work).graph->parent = &graph;
  return CUDA_SUCCESS;
}

CUresult plan_allocation(Process& process, Graph& graph, CUDA_MEM_ALLOC_NODE_PARAMS* given,
                         NodePlan* plan) {
  if (CUresult result = find_context(process, nullptr, &plan->context)) return result;
  const CUmemPoolProps& properties = given->poolProps;
  if (given->bytesize == 0 || properties.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      (given->accessDescCount && !given->accessDescs)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      properties.handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  int device;
  if (CUresult result = process.device_of(properties.location.id, &device)) return result;
  GraphAllocation allocation{};
  allocation.bytes = given->bytesize;
  allocation.properties = properties;
  for (size_t i = 0; i < given->accessDescCount; i++) {
    int other;
    const CUmemAccessDesc& access = given->accessDescs[i];
    if (access.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult result = process.device_of(access.location.id, &other)) return result;
    allocation.access.push_back(access);
  }
  if (CUresult result =
          process.graph_memory.reserve(*plan->context, device, given->bytesize, graph.id(),
                                       &allocation.address, &allocation.hold)) {
    return result;
  }
  given->dptr = allocation.address;
  plan->work = Operation(std::move(allocation));
  return CUDA_SUCCESS;
}

CUresult plan_conditional(Process& process, Graph& graph, CUDA_CONDITIONAL_NODE_PARAMS* given,
                          NodePlan* plan) REQUIRES(process.graphs.mutex) {
  if (CUresult result = find_context(process, given->ctx, &plan->context)) return result;
  auto& conditionals = process.graphs.conditionals;
  auto found = conditionals.find(reinterpret_cast<const void*>(given->handle));
  auto value = found == conditionals.end() ? nullptr : found->second.lock();
  if (!value || value->used) return CUDA_ERROR_INVALID_VALUE;
  bool ours = false;
  for (const Graph* above = &graph; above; above = above->parent) {
    ours |= above->id() == value->graph_id;
  }
  unsigned most = given->type == CU_GRAPH_COND_TYPE_IF      ? 2
                  : given->type == CU_GRAPH_COND_TYPE_WHILE ? 1
                                                            : kMostSwitchBodies;
  if (!ours || given->type > CU_GRAPH_COND_TYPE_SWITCH || given->size < 1 || given->size > most) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Conditional conditional{value, given->type, {}, {}};
  for (unsigned i = 0; i < given->size; i++) {
    auto body = std::make_shared<Graph>(&process.graphs, process.graphs.next_id++);
    body->body = true;
    body->parent = &graph;
    conditional.handles.push_back(body->handle());
    conditional.bodies.push_back(std::move(body));
  }
  value->used = true;
  plan->work = std::move(conditional);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult plan_node(Process& process, Graph& graph, CUgraphNodeParams* given, NodePlan* plan) {
  process.graphs.mutex.assert_held();
  if (!graph.accepts(given->type)) {
    log_refusal("cuGraphAddNode(body)",
                "the body of a conditional node takes kernels, copies, "
                "fills, children, empty and conditional nodes only");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  switch (given->type) {
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return plan_child(process.graphs, graph, given->graph, plan);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      plan->work = Operation(Empty{});
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return plan_allocation(process, graph, &given->alloc, plan);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      if (CUresult result = process.graph_memory.add_free_node(given->free.dptr, graph.id())) {
        return result;
      }
      plan->work = Operation(GraphFree{given->free.dptr, nullptr});
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return plan_conditional(process, graph, &given->conditional, plan);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      log_refusal("external semaphore nodes", "external semaphores are not emulated");
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      break;
  }
  GraphNode fresh{};
  fresh.graph = &graph;
  return plan_change(process, fresh, *given, plan);
}

CUresult plan_change(Process& process, const GraphNode&, const CUgraphNodeParams& given,
                     NodePlan* plan) {
  switch (given.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return plan_kernel(process, given.kernel, plan);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return plan_copy(process, given.memcpy.copyParams, given.memcpy.copyCtx, plan);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return plan_fill(process, given.memset, plan);
    case CU_GRAPH_NODE_TYPE_HOST:
      if (!given.host.fn) return CUDA_ERROR_INVALID_VALUE;
      plan->work = Operation(HostCall{given.host.fn, given.host.userData});
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return plan_event<EventWait>(process, given.eventWait.event, plan);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return plan_event<EventRecord>(process, given.eventRecord.event, plan);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return plan_memory_operations(process, given.memOp, plan);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

namespace {

template <class Kind>
const Kind* as(const GraphNode& node) {
  auto* operation = std::get_if<Operation>(&node.work);
  return operation ? std::get_if<Kind>(operation) : nullptr;
}

CUmemorytype type_of(const Side& side) {
  return side.device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}

}  // namespace

bool tell(const GraphNode& node, CUDA_KERNEL_NODE_PARAMS* out) {
  auto* launch = as<KernelLaunch>(node);
  if (!launch) return false;
  const emulated_launch& shape = launch->shape;
  *out = {};
  out->func = reinterpret_cast<CUfunction>(launch->function.get());
  if (!launch->function->module->context) {
    out->kern = reinterpret_cast<CUkernel>(launch->function.get());
  }
  out->ctx = reinterpret_cast<CUcontext>(node.context.get());
  out->gridDimX = shape.grid.x;
  out->gridDimY = shape.grid.y;
  out->gridDimZ = shape.grid.z;
  out->blockDimX = shape.block.x;
  out->blockDimY = shape.block.y;
  out->blockDimZ = shape.block.z;
  out->sharedMemBytes = shape.dynamic_shared_bytes;
  out->kernelParams = const_cast<void**>(launch->parameters->pointers.data());
  return true;
}

bool tell(const GraphNode& node, CUDA_MEMCPY3D* out) {
  auto* copy = as<Copy>(node);
  if (!copy) return false;
  if (node.copy_request) {
    *out = *node.copy_request;
    return true;
  }
  *out = {};
  out->srcMemoryType = type_of(copy->from);
  out->srcHost = copy->from.device ? nullptr : reinterpret_cast<void*>(copy->from.address);
  out->srcDevice = copy->from.device ? copy->from.address : 0;
  out->dstMemoryType = type_of(copy->to);
  out->dstHost = copy->to.device ? nullptr : reinterpret_cast<void*>(copy->to.address);
  out->dstDevice = copy->to.device ? copy->to.address : 0;
  const Shape& shape = copy->shape;
  out->srcPitch = shape.from_pitch;
  out->dstPitch = shape.to_pitch;
  out->srcHeight = shape.from_layer ? shape.from_layer / shape.from_pitch : shape.height;
  out->dstHeight = shape.to_layer ? shape.to_layer / shape.to_pitch : shape.height;
  out->WidthInBytes = shape.width;
  out->Height = shape.height;
  out->Depth = shape.depth;
  return true;
}

bool tell(const GraphNode& node, CUDA_MEMSET_NODE_PARAMS* out) {
  auto* fill = as<Fill>(node);
  if (!fill) return false;
  *out = {fill->to.address,    fill->pitch, fill->value,
          fill->element_bytes, fill->width, fill->height};
  return true;
}

bool tell(const GraphNode& node, CUDA_HOST_NODE_PARAMS* out) {
  auto* call = as<HostCall>(node);
  if (call) *out = {call->function, call->user_data};
  return call != nullptr;
}

bool tell(const GraphNode& node, CUDA_MEM_ALLOC_NODE_PARAMS* out) {
  auto* allocation = as<GraphAllocation>(node);
  if (!allocation) return false;
  *out = {allocation->properties, allocation->access.data(), allocation->access.size(),
          allocation->bytes, allocation->address};
  return true;
}

bool tell(const GraphNode& node, CUDA_BATCH_MEM_OP_NODE_PARAMS* out) {
  auto* operations = as<MemoryOperations>(node);
  if (!operations) return false;
  *out = {reinterpret_cast<CUcontext>(node.context.get()),
          static_cast<unsigned>(operations->list.size()),
          const_cast<CUstreamBatchMemOpParams*>(operations->list.data()), 0};
  return true;
}

}  // namespace lambent::emulated_cuda
