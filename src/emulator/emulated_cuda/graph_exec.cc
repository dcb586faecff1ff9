#include "emulator/emulated_cuda/graph_exec.h"

#include <algorithm>

#include "emulator/emulated_cuda/process.h"

namespace lambent::emulated_cuda {

namespace {

// Where a node's part of the flat form begins and ends: one place, or those of a whole child graph.
struct Span {
  uint32_t first, last;
};

class Flattener {
 public:
  explicit Flattener(ExecBody* body) : body_(*body) {}

  void graph(const Graph& graph) {
    std::unordered_map<const GraphNode*, Span> spans;
    for (GraphNode* node : graph.topological_order()) {
      Span span = add(*node);
      for (const Edge& edge : node->dependencies) connect(spans[edge.node].last, span.first);
      spans[node] = span;
    }
  }

 private:
  uint32_t append(Operation operation, std::shared_ptr<Context> context) {
    if (context) body_.contexts.insert(context);
    ExecNode node;
    node.operation = std::move(operation);
    node.context = std::move(context);
    body_.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(body_.nodes.size() - 1);
  }

  void connect(uint32_t from, uint32_t to) {
    body_.nodes[from].dependents.push_back(to);
    body_.nodes[to].dependencies++;
  }

  Span add(const GraphNode& node) {
    body_.node_count++;
    if (auto* child = std::get_if<ChildGraph>(&node.work)) return splice(*child->graph);
    if (auto* conditional = std::get_if<Conditional>(&node.work)) {
      uint32_t at = append(Empty{}, node.context);
      body_.nodes[at].choice = choice(*conditional);
      return {at, at};
    }
    const auto& operation = std::get<Operation>(node.work);
    if (auto* allocation = std::get_if<GraphAllocation>(&operation)) {
      body_.allocations.push_back(allocation->address);
    } else if (auto* free = std::get_if<GraphFree>(&operation)) {
      body_.frees.push_back(free->address);
    }
    uint32_t at = append(node.enabled ? operation : Operation(Empty{}), node.context);
    // Kernels that may begin at the same instant come in the order of the nodes.
    auto* launch = std::get_if<KernelLaunch>(&body_.nodes[at].operation);
    if (launch) launch->sequence = at;
    return {at, at};
  }

  // The child's nodes between an empty first and an empty last.
  Span splice(const Graph& child) {
    uint32_t first = append(Empty{}, nullptr);
    std::unordered_map<const GraphNode*, Span> spans;
    for (GraphNode* node : child.topological_order()) {
      Span span = add(*node);
      if (node->dependencies.empty()) connect(first, span.first);
      for (const Edge& edge : node->dependencies) connect(spans[edge.node].last, span.first);
      spans[node] = span;
    }
    uint32_t last = append(Empty{}, nullptr);
    if (child.nodes().empty()) connect(first, last);
    for (GraphNode* leaf : child.leaves()) connect(spans[leaf].last, last);
    return {first, last};
  }

  std::shared_ptr<const ExecChoice> choice(const Conditional& conditional) {
    auto made = std::make_shared<ExecChoice>();
    made->value = conditional.value;
    made->type = conditional.type;
    body_.values.push_back(conditional.value);
    for (const auto& graph : conditional.bodies) {
      auto body = flatten(*graph);
      body_.node_count += body->node_count;
      body_.values.insert(body_.values.end(), body->values.begin(), body->values.end());
      body_.contexts.insert(body->contexts.begin(), body->contexts.end());
      made->bodies.push_back(std::move(body));
    }
    return made;
  }

  ExecBody& body_;
};

// Pairs the nodes of a graph with those of an executable one, from the leaves up, by the order of
// edges; notes what does not match.
class Pairing {
 public:
  explicit Pairing(CUgraphExecUpdateResultInfo* info) : info_(*info) {}

  bool pair(const Graph& exec, const Graph& graph) {
    if (exec.nodes().size() != graph.nodes().size()) {
      return fail(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr);
    }
    auto own = exec.leaves(), theirs = graph.leaves();
    if (own.size() != theirs.size()) {
      return fail(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
                  theirs.empty() ? nullptr : theirs.back());
    }
    std::vector<std::pair<GraphNode*, GraphNode*>> open;
    for (size_t i = 0; i < own.size(); i++) {
      if (!match(own[i], theirs[i], nullptr, &open)) return false;
    }
    while (!open.empty()) {
      auto [mine, other] = open.back();
      open.pop_back();
      if (mine->dependencies.size() != other->dependencies.size()) {
        return fail(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, other);
      }
      for (size_t i = 0; i < mine->dependencies.size(); i++) {
        if (!match(mine->dependencies[i].node, other->dependencies[i].node, other, &open)) {
          return false;
        }
      }
    }
    return true;
  }

  std::vector<std::pair<GraphNode*, GraphNode*>> pairs;  // all, children and bodies included

 private:
  bool fail(CUgraphExecUpdateResult result, GraphNode* node, GraphNode* from = nullptr) {
    info_ = {result, reinterpret_cast<CUgraphNode>(node), reinterpret_cast<CUgraphNode>(from)};
    return false;
  }

  bool match(GraphNode* mine, GraphNode* other, GraphNode* dependent,
             std::vector<std::pair<GraphNode*, GraphNode*>>* open) {
    auto it = partner_.find(mine), back = partner_.find(other);
    if (it != partner_.end() || back != partner_.end()) {
      if (it != partner_.end() && it->second == other) return true;
      return fail(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, dependent ? dependent : other,
                  dependent ? other : nullptr);
    }
    partner_[mine] = other;
    partner_[other] = mine;
    if (mine->type() != other->type()) {
      return fail(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, other);
    }
    if (!match_inside(mine, other)) return false;
    pairs.push_back({mine, other});
    open->push_back({mine, other});
    return true;
  }

  bool match_inside(GraphNode* mine, GraphNode* other) {
    if (auto* child = std::get_if<ChildGraph>(&mine->work)) {
      return pair(*child->graph, *std::get<ChildGraph>(other->work).graph);
    }
    if (auto* conditional = std::get_if<Conditional>(&mine->work)) {
      const auto& theirs = std::get<Conditional>(other->work);
      if (conditional->type != theirs.type || conditional->bodies.size() != theirs.bodies.size()) {
        return fail(CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, other);
      }
      for (size_t i = 0; i < theirs.bodies.size(); i++) {
        if (!pair(*conditional->bodies[i], *theirs.bodies[i])) return false;
      }
      return true;
    }
    CUresult result = check_node_update(*mine, other->work, other->context);
    if (result == CUDA_SUCCESS) return true;
    bool kernel = mine->type() == CU_GRAPH_NODE_TYPE_KERNEL;
    return fail(result == CUDA_ERROR_NOT_SUPPORTED ? CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED
                : kernel ? CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE
                         : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED,
                other);
  }

  CUgraphExecUpdateResultInfo& info_;
  std::unordered_map<const GraphNode*, const GraphNode*> partner_;
};

// The first conditional value made in this graph (or a child) that no conditional node uses.
bool uses_all_values(const Graph& graph) {
  for (const auto& value : graph.conditional_values) {
    if (!value->used) return false;
  }
  return true;
}

bool fits_device_launch(const Graph& graph, GraphNode** offender, size_t* work) {
  for (const auto& node : graph.nodes()) {
    switch (node->type()) {
      case CU_GRAPH_NODE_TYPE_KERNEL:
      case CU_GRAPH_NODE_TYPE_MEMCPY:
      case CU_GRAPH_NODE_TYPE_MEMSET:
        ++*work;
        break;
      case CU_GRAPH_NODE_TYPE_GRAPH:
        if (!fits_device_launch(*std::get<ChildGraph>(node->work).graph, offender, work)) {
          return false;
        }
        break;
      default:
        *offender = node.get();
        return false;
    }
  }
  return true;
}

bool acyclic(const Graph& graph, GraphNode** offender) {
  if (!graph.nodes().empty() && graph.topological_order(offender).empty()) return false;
  for (const auto& node : graph.nodes()) {
    if (auto* child = std::get_if<ChildGraph>(&node->work)) {
      if (!acyclic(*child->graph, offender)) return false;
    } else if (auto* conditional = std::get_if<Conditional>(&node->work)) {
      for (const auto& body : conditional->bodies) {
        if (!acyclic(*body, offender)) return false;
      }
    }
  }
  return true;
}

}  // namespace

std::shared_ptr<const ExecBody> flatten(const Graph& graph) {
  auto body = std::make_shared<ExecBody>();
  Flattener(body.get()).graph(graph);
  for (uint32_t i = 0; i < body->nodes.size(); i++) {
    if (body->nodes[i].dependencies == 0) body->roots.push_back(i);
  }
  return body;
}

CUresult check_instantiation(const Graph& graph, unsigned long long flags,
                             CUgraphInstantiateResult* result, GraphNode** offender) {
  constexpr unsigned long long kKnown =
      CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
      CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  *result = CUDA_GRAPH_INSTANTIATE_ERROR;
  *offender = nullptr;
  if ((flags & ~kKnown) || graph.capturing) return CUDA_ERROR_INVALID_VALUE;
  bool for_device = flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
  if (for_device && (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!acyclic(graph, offender)) {
    *result = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!uses_all_values(graph)) {
    *result = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (graph.executables > 0 && (graph.has_memory_nodes() || graph.has_conditionals())) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (for_device) {
    // Kernels cannot launch graphs here; a graph that could not be launched so is told first.
    size_t work = 0;
    if (!fits_device_launch(graph, offender, &work) || work == 0) {
      *result = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
      return CUDA_ERROR_INVALID_VALUE;
    }
    log_refusal("cuGraphInstantiate(DEVICE_LAUNCH)", "kernels do not launch graphs here");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  *result = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return CUDA_SUCCESS;
}

std::shared_ptr<GraphExec> make_exec(GraphIndex& index, const std::shared_ptr<Graph>& graph,
                                     unsigned long long flags) {
  auto exec = std::make_shared<GraphExec>();
  exec->graph = graph->clone(nullptr, &index.next_id, &exec->twins);
  exec->source = graph;
  exec->flags = flags & ~static_cast<unsigned long long>(CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
  exec->body = flatten(*exec->graph);
  graph->executables++;
  return exec;
}

CUresult check_node_update(const GraphNode& node, const NodeWork& work,
                           const std::shared_ptr<Context>& context) {
  if (node.work.index() != work.index()) return CUDA_ERROR_INVALID_VALUE;
  const auto* now = std::get_if<Operation>(&node.work);
  const auto* next = std::get_if<Operation>(&work);
  if (!now || now->index() != next->index()) return CUDA_ERROR_INVALID_VALUE;
  if (auto* kernel = std::get_if<KernelLaunch>(now)) {
    if (node.context != context) return CUDA_ERROR_INVALID_VALUE;
    return kernel->cooperative == std::get<KernelLaunch>(*next).cooperative
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
  }
  if (auto* copy = std::get_if<Copy>(now)) {
    const Copy& other = std::get<Copy>(*next);
    bool same_places = copy->to.device == other.to.device &&
                       copy->from.device == other.from.device &&
                       copy->to.device_index == other.to.device_index &&
                       copy->from.device_index == other.from.device_index;
    return same_places && node.context == context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  if (auto* fill = std::get_if<Fill>(now)) {
    const Fill& other = std::get<Fill>(*next);
    bool flat = fill->height == 1 && other.height == 1;
    bool same_shape = fill->width == other.width && fill->height == other.height &&
                      fill->element_bytes == other.element_bytes && fill->pitch == other.pitch;
    bool same_place = fill->to.device_index == other.to.device_index && node.context == context;
    return (flat || same_shape) && same_place ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  if (auto* batch = std::get_if<MemoryOperations>(now)) {
    const auto& other = std::get<MemoryOperations>(*next);
    return batch->list.size() == other.list.size() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  if (std::holds_alternative<GraphAllocation>(*now)) {
    return std::get<GraphAllocation>(*now).address == std::get<GraphAllocation>(*next).address
               ? CUDA_SUCCESS
               : CUDA_ERROR_NOT_SUPPORTED;
  }
  if (std::holds_alternative<GraphFree>(*now)) {
    return std::get<GraphFree>(*now).address == std::get<GraphFree>(*next).address
               ? CUDA_SUCCESS
               : CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult update_graph(Graph& own, const Graph& graph, CUgraphExecUpdateResultInfo* info) {
  *info = {CU_GRAPH_EXEC_UPDATE_SUCCESS, nullptr, nullptr};
  Pairing pairing(info);
  if (!pairing.pair(own, graph)) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  for (auto& [mine, other] : pairing.pairs) {
    if (std::holds_alternative<Operation>(mine->work)) {
      mine->work = other->work;
      mine->context = other->context;
      mine->copy_request = other->copy_request;
    } else if (auto* conditional = std::get_if<Conditional>(&mine->work)) {
      const auto& theirs = std::get<Conditional>(other->work);
      conditional->value = theirs.value;
    }
  }
  return CUDA_SUCCESS;
}

bool can_be_disabled(CUgraphNodeType type) {
  return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
         type == CU_GRAPH_NODE_TYPE_MEMSET;
}

}  // namespace lambent::emulated_cuda
