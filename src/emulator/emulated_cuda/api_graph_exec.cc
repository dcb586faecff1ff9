// Executable graphs: instantiated, changed, launched.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "emulator/emulated_cuda/api.h"
#include "emulator/emulated_cuda/events.h"
#include "emulator/emulated_cuda/graph_run.h"
#include "emulator/emulated_cuda/node_parameters.h"

using namespace lambent::emulated_cuda;

namespace {

CUresult instantiate(CUgraphExec* out, CUgraph handle, unsigned long long flags,
                     CUgraphInstantiateResult* outcome, CUgraphNode* offender) {
  WITH_PROCESS();
  *outcome = CUDA_GRAPH_INSTANTIATE_ERROR;
  *offender = nullptr;
  const lambent::MutexLock lock(process->graphs.mutex);
  Graph* graph = process->graphs.graph(handle);
  if (!out || !graph || graph->body) return CUDA_ERROR_INVALID_VALUE;
  GraphNode* node = nullptr;
  CUresult result = check_instantiation(*graph, flags, outcome, &node);
  *offender = reinterpret_cast<CUgraphNode>(node);
  if (result) return result;
  auto exec = make_exec(process->graphs, graph->shared_from_this(), flags);
  *out = reinterpret_cast<CUgraphExec>(process->execs.insert(std::move(exec)));
  return CUDA_SUCCESS;
}

// Finds an executable graph and the node in it that stands for a node of its source.
CUresult find_twin(Process& process, CUgraphExec exec_handle, CUgraphNode handle,
                   std::shared_ptr<GraphExec>* exec, GraphNode** twin)
    REQUIRES(process.graphs.mutex) {
  *exec = process.execs.find(exec_handle);
  GraphNode* node = process.graphs.node(handle);
  if (!*exec || !node) return CUDA_ERROR_INVALID_VALUE;
  auto it = (*exec)->twins.find(node->id);
  if (it == (*exec)->twins.end()) return CUDA_ERROR_INVALID_VALUE;
  *twin = it->second;
  return CUDA_SUCCESS;
}

CUresult change(CUgraphExec exec_handle, CUgraphNode handle, const CUgraphNodeParams* parameters) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  std::shared_ptr<GraphExec> exec;
  GraphNode* twin = nullptr;
  if (CUresult result = find_twin(*process, exec_handle, handle, &exec, &twin)) return result;
  if (!parameters || twin->type() != parameters->type) return CUDA_ERROR_INVALID_VALUE;
  NodePlan plan;
  if (CUresult result = plan_change(*process, *twin, *parameters, &plan)) return result;
  if (auto* launch = std::get_if<KernelLaunch>(&std::get<Operation>(plan.work))) {
    const auto& now = std::get<KernelLaunch>(std::get<Operation>(twin->work));
    launch->attributes = now.attributes;
    launch->priority = now.priority;
    launch->cooperative = now.cooperative;
  }
  if (CUresult result = check_node_update(*twin, plan.work, plan.context)) return result;
  twin->work = std::move(plan.work);
  twin->copy_request = plan.copy_request;
  exec->body = flatten(*exec->graph);
  return CUDA_SUCCESS;
}

// Allocates what the launch's allocation nodes say, frees what its free nodes say. What an earlier
// launch left allocated is an error, or freed first if the graph was made so.
CUresult settle_memory(Process& process, const GraphExec& exec, const ExecBody& body) {
  GraphMemory& memory = process.graph_memory;
  GraphMemory::Hold hold;
  bool frees_first = exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
  for (CUdeviceptr address : body.allocations) {
    if (!memory.allocated(address)) continue;
    if (!frees_first) return CUDA_ERROR_INVALID_VALUE;
    memory.free(address, &hold);
  }
  for (size_t i = 0; i < body.allocations.size(); i++) {
    CUresult result = memory.allocate(body.allocations[i]);
    if (result == CUDA_SUCCESS) continue;
    while (i-- > 0) memory.free(body.allocations[i], &hold);
    return result;
  }
  for (CUdeviceptr address : body.frees) {
    if (!memory.free(address, &hold)) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

std::shared_ptr<GraphRun> prepare_run(Process& process, Context& context, const Stream& stream,
                                      const std::shared_ptr<GraphExec>& exec,
                                      const std::shared_ptr<const ExecBody>& body) {
  auto run = std::make_shared<GraphRun>();
  run->exec = exec;
  run->body = body;
  if (!(exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)) {
    run->priority = stream.priority;
  }
  for (uint32_t i = 0; i < body->nodes.size(); i++) {
    const Operation& operation = body->nodes[i].operation;
    if (auto* record = std::get_if<EventRecord>(&operation)) {
      auto end = std::make_shared<Completion>();
      const uint64_t number = begin_record(process, *record->event);
      record->event->record(end, number);
      run->recorded[i] = {std::move(end), record->event, number};
    } else if (auto* wait = std::get_if<EventWait>(&operation)) {
      if (auto awaited = last_end(process, context, wait->event)) {
        run->awaited[i] = std::move(awaited);
      }
    }
  }
  const DeviceSpec& spec = process.node->device();
  run->ready_ns = process.node->now_ns() + spec.graph_launch_ns +
                  static_cast<int64_t>(body->node_count) * spec.graph_node_ns;
  return run;
}

// A launch into a capturing stream is a child graph.
CUresult capture_launch(Process& process, const std::shared_ptr<Context>& context, Stream& stream,
                        const GraphExec& exec) {
  ChildGraph child;
  {
    const lambent::MutexLock lock(process.graphs.mutex);
    if (exec.graph->has_memory_nodes() || exec.graph->has_conditionals()) {
      if (stream.captured) stream.captured->capture->invalidated = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    child.graph = exec.graph->clone(&process.graphs, &process.graphs.next_id, nullptr);
    if (stream.captured && stream.captured->capture->graph) {
      child.graph->parent = stream.captured->capture->graph.get();
    }
  }
  return capture_node(process, context, stream, std::move(child), nullptr);
}

CUresult upload(Process& process, const std::shared_ptr<Context>& context,
                const std::shared_ptr<Stream>& stream) {
  // Nothing lies on the device: the upload only takes its place in the order.
  return enqueue(process, context, stream, Empty{});
}

}  // namespace

CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  CUgraphInstantiateResult outcome;
  CUgraphNode offender;
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) return CUDA_ERROR_INVALID_VALUE;
  return instantiate(out, graph, flags, &outcome, &offender);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = instantiate(out, graph, parameters->flags, &parameters->result_out,
                                &parameters->hErrNode_out);
  if (result || !(parameters->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)) return result;
  WITH_STREAM(parameters->hUploadStream);
  return upload(*process, context, stream);
}

CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* flags) {
  WITH_PROCESS();
  auto exec = process->execs.find(handle);
  if (!exec || !flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  WITH_PROCESS();
  auto exec = process->execs.remove(handle);
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  const lambent::MutexLock lock(process->graphs.mutex);
  if (auto source = exec->source.lock()) source->executables--;
  return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec handle, CUstream stream_handle) {
  WITH_STREAM(stream_handle);
  if (!process->execs.find(handle)) return CUDA_ERROR_INVALID_VALUE;
  return upload(*process, context, stream);
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  WITH_STREAM(stream_handle);
  auto exec = process->execs.find(handle);
  if (!exec) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capturing.load(std::memory_order_acquire)) {
    return capture_launch(*process, context, *stream, *exec);
  }
  if (CUresult result = refuse_if_capturing(*process, *context, *stream)) return result;
  const lambent::MutexLock launch_lock(exec->launch_mutex);
  std::shared_ptr<const ExecBody> body;
  {
    const lambent::MutexLock lock(process->graphs.mutex);
    body = exec->body;
  }
  for (const auto& needed : body->contexts) {
    if (!process->contexts.find(needed.get())) return CUDA_ERROR_INVALID_CONTEXT;
    if (CUresult result = process->health_of(*needed)) return result;
  }
  if (CUresult result = settle_memory(*process, *exec, *body)) return result;
  GraphLaunch launch{prepare_run(*process, *context, *stream, exec, body), exec->last};
  return enqueue(*process, context, stream, std::move(launch), &exec->last);
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                  CUgraphNodeParams* parameters) {
  if (parameters && parameters->type == CU_GRAPH_NODE_TYPE_GRAPH) {
    return cuGraphExecChildGraphNodeSetParams(exec, node, parameters->graph.graph);
  }
  return change(exec, node, parameters);
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS* given) {
  CUgraphNodeParams parameters{};
  if (!given) return CUDA_ERROR_INVALID_VALUE;
  parameters.type = CU_GRAPH_NODE_TYPE_KERNEL;
  parameters.kernel = *given;
  return change(exec, node, &parameters);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMCPY3D* given, CUcontext context) {
  CUgraphNodeParams parameters{};
  if (!given) return CUDA_ERROR_INVALID_VALUE;
  parameters.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  parameters.memcpy.copyParams = *given;
  parameters.memcpy.copyCtx = context;
  return change(exec, node, &parameters);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS* given, CUcontext context) {
  CUgraphNodeParams parameters{};
  if (!given) return CUDA_ERROR_INVALID_VALUE;
  parameters.type = CU_GRAPH_NODE_TYPE_MEMSET;
  parameters.memset = {given->dst,   given->pitch,  given->value, given->elementSize,
                       given->width, given->height, context};
  return change(exec, node, &parameters);
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS* given) {
  CUgraphNodeParams parameters{};
  if (!given) return CUDA_ERROR_INVALID_VALUE;
  parameters.type = CU_GRAPH_NODE_TYPE_HOST;
  parameters.host = *given;
  return change(exec, node, &parameters);
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec_handle, CUgraphNode handle,
                                            CUgraph child_handle) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  std::shared_ptr<GraphExec> exec;
  GraphNode* twin = nullptr;
  if (CUresult result = find_twin(*process, exec_handle, handle, &exec, &twin)) return result;
  Graph* wanted = process->graphs.graph(child_handle);
  auto* child = std::get_if<ChildGraph>(&twin->work);
  if (!child || !wanted) return CUDA_ERROR_INVALID_VALUE;
  CUgraphExecUpdateResultInfo info;
  if (update_graph(*child->graph, *wanted, &info)) return CUDA_ERROR_INVALID_VALUE;
  exec->body = flatten(*exec->graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  parameters.eventRecord.event = event;
  return change(exec, node, &parameters);
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  parameters.eventWait.event = event;
  return change(exec, node, &parameters);
}

CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS* given) {
  CUgraphNodeParams parameters{};
  if (!given) return CUDA_ERROR_INVALID_VALUE;
  parameters.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  parameters.memOp = *given;
  return change(exec, node, &parameters);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec_handle, CUgraph handle,
                              CUgraphExecUpdateResultInfo* info) {
  WITH_PROCESS();
  if (!info) return CUDA_ERROR_INVALID_VALUE;
  *info = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
  const lambent::MutexLock lock(process->graphs.mutex);
  auto exec = process->execs.find(exec_handle);
  Graph* graph = process->graphs.graph(handle);
  if (!exec || !graph || graph->capturing) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = update_graph(*exec->graph, *graph, info)) return result;
  exec->body = flatten(*exec->graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec_handle, CUgraphNode handle, unsigned int enabled) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  std::shared_ptr<GraphExec> exec;
  GraphNode* twin = nullptr;
  if (CUresult result = find_twin(*process, exec_handle, handle, &exec, &twin)) return result;
  if (enabled > 1 || !can_be_disabled(twin->type())) return CUDA_ERROR_INVALID_VALUE;
  twin->enabled = enabled;
  exec->body = flatten(*exec->graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec_handle, CUgraphNode handle, unsigned int* enabled) {
  WITH_PROCESS();
  const lambent::MutexLock lock(process->graphs.mutex);
  std::shared_ptr<GraphExec> exec;
  GraphNode* twin = nullptr;
  if (CUresult result = find_twin(*process, exec_handle, handle, &exec, &twin)) return result;
  if (!enabled || !can_be_disabled(twin->type())) return CUDA_ERROR_INVALID_VALUE;
  *enabled = twin->enabled;
  return CUDA_SUCCESS;
}
