#include "gpu/cuda/graph.h"

namespace lambent::cuda {
namespace {

CUDA_KERNEL_NODE_PARAMS parameters_of(const KernelNode& node) {
  CUDA_KERNEL_NODE_PARAMS parameters{};
  parameters.func = node.function;
  parameters.gridDimX = node.grid.x;
  parameters.gridDimY = node.grid.y;
  parameters.gridDimZ = node.grid.z;
  parameters.blockDimX = node.block.x;
  parameters.blockDimY = node.block.y;
  parameters.blockDimZ = node.block.z;
  parameters.sharedMemBytes = node.shared_bytes;
  parameters.kernelParams = const_cast<void**>(node.parameters.data());
  return parameters;
}

Result<CUcontext> current_context(const Driver& driver) {
  CUcontext context = nullptr;
  RETURN_IF_ERROR(driver.check(driver->ctx_get_current(&context), "cuCtxGetCurrent"));
  return context;
}

}  // namespace

Result<Graph> Graph::create(const Driver& driver) {
  CUgraph graph = nullptr;
  RETURN_IF_ERROR(driver.check(driver->graph_create(&graph, 0), "cuGraphCreate"));
  return Graph(&driver, graph);
}

Result<Graph> Graph::capture(const Driver& driver, CUstream stream,
                             const std::function<Result<void>()>& work) {
  RETURN_IF_ERROR(driver.check(driver->stream_begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
                               "cuStreamBeginCapture"));
  const Result<void> queued = work();
  CUgraph captured = nullptr;
  const auto ended =
      driver.check(driver->stream_end_capture(stream, &captured), "cuStreamEndCapture");
  Graph graph(&driver, captured);
  if (!queued.ok()) return queued.error();
  if (!ended.ok()) return ended.error();
  return graph;
}

Graph::~Graph() {
  if (graph_ != nullptr) (*driver_)->graph_destroy(graph_);
}

Result<void> Graph::change_kernel(CUgraphNode node, const KernelNode& kernel) {
  const CUDA_KERNEL_NODE_PARAMS parameters = parameters_of(kernel);
  return driver_->check((*driver_)->graph_kernel_node_set_params(node, &parameters),
                        "cuGraphKernelNodeSetParams");
}

Result<CUgraphNode> GraphNodes::add_kernel(const KernelNode& node,
                                           std::span<const CUgraphNode> after) const {
  const CUDA_KERNEL_NODE_PARAMS parameters = parameters_of(node);
  CUgraphNode added = nullptr;
  RETURN_IF_ERROR(driver_->check(
      (*driver_)->graph_add_kernel_node(&added, graph_, after.data(), after.size(), &parameters),
      "cuGraphAddKernelNode"));
  return added;
}

Result<CUgraphNode> GraphNodes::add_child(const Graph& child,
                                          std::span<const CUgraphNode> after) const {
  CUgraphNode added = nullptr;
  RETURN_IF_ERROR(driver_->check((*driver_)->graph_add_child_graph_node(
                                     &added, graph_, after.data(), after.size(), child.get()),
                                 "cuGraphAddChildGraphNode"));
  return added;
}

Result<CUgraphNode> GraphNodes::add_empty(std::span<const CUgraphNode> after) const {
  CUgraphNode added = nullptr;
  RETURN_IF_ERROR(
      driver_->check((*driver_)->graph_add_empty_node(&added, graph_, after.data(), after.size()),
                     "cuGraphAddEmptyNode"));
  return added;
}

Result<CUgraphConditionalHandle> GraphNodes::add_condition() const {
  if ((*driver_)->graph_conditional_handle_create == nullptr ||
      (*driver_)->graph_add_node == nullptr) {
    return Error{ErrorCode::kUnimplemented, "the driver has no conditional nodes"};
  }
  ASSIGN_OR_RETURN(const CUcontext context, current_context(*driver_));
  CUgraphConditionalHandle condition = 0;
  RETURN_IF_ERROR(
      driver_->check((*driver_)->graph_conditional_handle_create(&condition, graph_, context, 0, 0),
                     "cuGraphConditionalHandleCreate"));
  return condition;
}

Result<GraphNodes::Loop> GraphNodes::add_loop(CUgraphConditionalHandle condition,
                                              std::span<const CUgraphNode> after) const {
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  parameters.conditional.handle = condition;
  parameters.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
  parameters.conditional.size = 1;
  ASSIGN_OR_RETURN(parameters.conditional.ctx, current_context(*driver_));
  CUgraphNode node = nullptr;
  RETURN_IF_ERROR(driver_->check(
      (*driver_)->graph_add_node(&node, graph_, after.data(), nullptr, after.size(), &parameters),
      "cuGraphAddNode"));
  return Loop{node, GraphNodes(driver_, parameters.conditional.phGraph_out[0])};
}

Result<ExecutableGraph> ExecutableGraph::instantiate(const Driver& driver, const Graph& graph) {
  CUgraphExec exec = nullptr;
  RETURN_IF_ERROR(
      driver.check(driver->graph_instantiate(&exec, graph.get(), 0), "cuGraphInstantiate"));
  return ExecutableGraph(&driver, exec);
}

ExecutableGraph::~ExecutableGraph() {
  if (exec_ != nullptr) (*driver_)->graph_exec_destroy(exec_);
}

Result<void> ExecutableGraph::change_kernel(CUgraphNode node, const KernelNode& kernel) {
  const CUDA_KERNEL_NODE_PARAMS parameters = parameters_of(kernel);
  return driver_->check((*driver_)->graph_exec_kernel_node_set_params(exec_, node, &parameters),
                        "cuGraphExecKernelNodeSetParams");
}

Result<void> ExecutableGraph::change_child(CUgraphNode node, const Graph& child) {
  return driver_->check(
      (*driver_)->graph_exec_child_graph_node_set_params(exec_, node, child.get()),
      "cuGraphExecChildGraphNodeSetParams");
}

Result<void> ExecutableGraph::update(const Graph& graph) {
  CUgraphExecUpdateResultInfo outcome{};
  return driver_->check((*driver_)->graph_exec_update(exec_, graph.get(), &outcome),
                        "cuGraphExecUpdate");
}

Result<void> ExecutableGraph::launch(CUstream stream) const {
  return driver_->check((*driver_)->graph_launch(exec_, stream), "cuGraphLaunch");
}

Result<void> launch(const Driver& driver, const KernelNode& node, CUstream stream) {
  const auto [grid, block] = std::pair(node.grid, node.block);
  return driver.check(driver->launch_kernel(node.function, grid.x, grid.y, grid.z, block.x, block.y,
                                            block.z, node.shared_bytes, stream,
                                            const_cast<void**>(node.parameters.data()), nullptr),
                      "cuLaunchKernel");
}

}  // namespace lambent::cuda
