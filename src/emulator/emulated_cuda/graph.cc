#include "emulator/emulated_cuda/graph.h"

#include <algorithm>
#include <cstring>
#include <queue>
#include <unordered_set>

namespace lambent::emulated_cuda {

namespace {

CUgraphNodeType type_of(const Empty&) { return CU_GRAPH_NODE_TYPE_EMPTY; }
CUgraphNodeType type_of(const KernelLaunch&) { return CU_GRAPH_NODE_TYPE_KERNEL; }
CUgraphNodeType type_of(const Copy&) { return CU_GRAPH_NODE_TYPE_MEMCPY; }
CUgraphNodeType type_of(const Fill&) { return CU_GRAPH_NODE_TYPE_MEMSET; }
CUgraphNodeType type_of(const HostCall&) { return CU_GRAPH_NODE_TYPE_HOST; }
CUgraphNodeType type_of(const EventRecord&) { return CU_GRAPH_NODE_TYPE_EVENT_RECORD; }
CUgraphNodeType type_of(const EventWait&) { return CU_GRAPH_NODE_TYPE_WAIT_EVENT; }
CUgraphNodeType type_of(const GraphAllocation&) { return CU_GRAPH_NODE_TYPE_MEM_ALLOC; }
CUgraphNodeType type_of(const GraphFree&) { return CU_GRAPH_NODE_TYPE_MEM_FREE; }
CUgraphNodeType type_of(const MemoryOperations&) { return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP; }
template <class Other>  // never becomes a node
CUgraphNodeType type_of(const Other&) {
  return CU_GRAPH_NODE_TYPE_EMPTY;
}

}  // namespace

CUgraphNodeType GraphNode::type() const {
  if (std::holds_alternative<ChildGraph>(work)) return CU_GRAPH_NODE_TYPE_GRAPH;
  if (std::holds_alternative<Conditional>(work)) return CU_GRAPH_NODE_TYPE_CONDITIONAL;
  return std::visit([](const auto& operation) { return type_of(operation); },
                    std::get<Operation>(work));
}

CUresult check_edge(const CUgraphEdgeData& data) {
  static constexpr unsigned char kZero[sizeof data.reserved] = {};
  if (std::memcmp(data.reserved, kZero, sizeof kZero) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (data.type > CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC) return CUDA_ERROR_INVALID_VALUE;
  if (data.to_port != 0 || data.from_port > CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return data.type || data.from_port ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

Graph* GraphIndex::graph(CUgraph handle) const {
  auto it = graphs.find(handle);
  return it == graphs.end() ? nullptr : it->second;
}

GraphNode* GraphIndex::node(CUgraphNode handle) const {
  auto it = nodes.find(handle);
  return it == nodes.end() ? nullptr : it->second;
}

void Graph::enter() {
  if (!index_) return;
  index_->mutex.assert_held();
  index_->graphs[this] = this;
}

Graph::~Graph() {
  if (!index_) return;
  index_->mutex.assert_held();
  index_->graphs.erase(this);
  for (const auto& node : nodes_) index_->nodes.erase(node.get());
}

std::vector<GraphNode*> Graph::roots() const {
  std::vector<GraphNode*> found;
  for (const auto& node : nodes_) {
    if (node->dependencies.empty()) found.push_back(node.get());
  }
  return found;
}

std::vector<GraphNode*> Graph::leaves() const {
  std::vector<GraphNode*> found;
  for (const auto& node : nodes_) {
    if (node->dependents.empty()) found.push_back(node.get());
  }
  return found;
}

size_t Graph::edge_count() const {
  size_t count = 0;
  for (const auto& node : nodes_) count += node->dependencies.size();
  return count;
}

CUresult Graph::check_dependencies(const std::vector<Edge>& dependencies) const {
  std::unordered_set<const GraphNode*> seen;
  for (const Edge& edge : dependencies) {
    if (!edge.node || edge.node->graph != this) return CUDA_ERROR_INVALID_VALUE;
    if (!seen.insert(edge.node).second) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult result = check_edge(edge.data)) return result;
  }
  return CUDA_SUCCESS;
}

GraphNode* Graph::add(uint64_t id, NodeWork work, std::shared_ptr<Context> context,
                      const std::vector<Edge>& dependencies) {
  auto made = std::make_unique<GraphNode>();
  GraphNode* node = made.get();
  node->graph = this;
  node->id = node->original_id = id;
  node->work = std::move(work);
  node->context = std::move(context);
  node->dependencies = dependencies;
  for (const Edge& edge : dependencies) edge.node->dependents.push_back(node);
  nodes_.push_back(std::move(made));
  if (index_) {
    index_->mutex.assert_held();
    index_->nodes[node] = node;
  }
  return node;
}

CUresult Graph::connect(GraphNode* from, GraphNode* to, const CUgraphEdgeData& data) {
  if (!from || !to || from->graph != this || to->graph != this || from == to) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (CUresult result = check_edge(data)) return result;
  for (const Edge& edge : to->dependencies) {
    if (edge.node == from) return CUDA_ERROR_INVALID_VALUE;
  }
  to->dependencies.push_back({from, data});
  from->dependents.push_back(to);
  return CUDA_SUCCESS;
}

CUresult Graph::disconnect(GraphNode* from, GraphNode* to) {
  if (!from || !to || from->graph != this || to->graph != this) return CUDA_ERROR_INVALID_VALUE;
  size_t removed = std::erase_if(to->dependencies, [&](const Edge& e) { return e.node == from; });
  if (removed == 0) return CUDA_ERROR_INVALID_VALUE;
  std::erase(from->dependents, to);
  return CUDA_SUCCESS;
}

void Graph::remove(GraphNode* node) {
  for (const Edge& edge : node->dependencies) std::erase(edge.node->dependents, node);
  for (GraphNode* dependent : node->dependents) {
    std::erase_if(dependent->dependencies, [&](const Edge& edge) { return edge.node == node; });
  }
  if (index_) {
    index_->mutex.assert_held();
    index_->nodes.erase(node);
  }
  std::erase_if(nodes_, [&](const auto& own) { return own.get() == node; });
}

std::vector<GraphNode*> Graph::topological_order(GraphNode** stuck) const {
  std::unordered_map<const GraphNode*, size_t> waiting;
  auto later = [](const GraphNode* a, const GraphNode* b) { return a->id > b->id; };
  std::priority_queue<GraphNode*, std::vector<GraphNode*>, decltype(later)> ready(later);
  for (const auto& node : nodes_) {
    waiting[node.get()] = node->dependencies.size();
    if (node->dependencies.empty()) ready.push(node.get());
  }
  std::vector<GraphNode*> order;
  while (!ready.empty()) {
    GraphNode* node = ready.top();
    ready.pop();
    order.push_back(node);
    for (GraphNode* dependent : node->dependents) {
      if (--waiting[dependent] == 0) ready.push(dependent);
    }
  }
  if (order.size() == nodes_.size()) return order;
  for (const auto& node : nodes_) {
    if (stuck && waiting[node.get()] > 0) *stuck = node.get();
  }
  return {};
}

bool Graph::reaches(const std::vector<Edge>& from, const std::vector<Edge>& ends) {
  std::unordered_set<const GraphNode*> seen;
  std::vector<const GraphNode*> open;
  auto visit = [&](const GraphNode* node) {
    if (seen.insert(node).second) open.push_back(node);
  };
  for (const Edge& edge : from) visit(edge.node);
  while (!open.empty()) {
    const GraphNode* node = open.back();
    open.pop_back();
    for (const Edge& edge : node->dependencies) visit(edge.node);
  }
  return std::all_of(ends.begin(), ends.end(),
                     [&](const Edge& edge) { return seen.count(edge.node) != 0; });
}

std::shared_ptr<Graph> Graph::clone(GraphIndex* index, uint64_t* next_id,
                                    std::unordered_map<uint64_t, GraphNode*>* twins) const {
  auto copy = std::make_shared<Graph>(index, (*next_id)++);
  copy->body = body;
  copy->conditional_values = conditional_values;
  copy->user_references = user_references;
  std::unordered_map<const GraphNode*, GraphNode*> here;
  for (const auto& node : nodes_) {
    NodeWork work = node->work;
    if (auto* child = std::get_if<ChildGraph>(&work)) {
      child->graph = child->graph->clone(index, next_id, twins);
      child->graph->parent = copy.get();
    } else if (auto* conditional = std::get_if<Conditional>(&work)) {
      for (size_t i = 0; i < conditional->bodies.size(); i++) {
        conditional->bodies[i] = conditional->bodies[i]->clone(index, next_id, twins);
        conditional->bodies[i]->parent = copy.get();
        conditional->handles[i] = conditional->bodies[i]->handle();
      }
    }
    GraphNode* twin = copy->add((*next_id)++, std::move(work), node->context, {});
    twin->original_id = node->id;
    twin->copy_request = node->copy_request;
    twin->enabled = node->enabled;
    here[node.get()] = twin;
    if (twins) (*twins)[node->id] = twin;
  }
  for (const auto& node : nodes_) {
    GraphNode* twin = here[node.get()];
    for (const Edge& edge : node->dependencies) {
      twin->dependencies.push_back({here[edge.node], edge.data});
    }
    for (GraphNode* dependent : node->dependents) twin->dependents.push_back(here[dependent]);
  }
  return copy;
}

bool Graph::accepts(CUgraphNodeType type) const {
  bool inside_body = false;
  for (const Graph* graph = this; graph; graph = graph->parent) inside_body |= graph->body;
  if (!inside_body) return true;
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return true;
    default:
      return false;
  }
}

bool Graph::has_memory_nodes() const {
  return std::any_of(nodes_.begin(), nodes_.end(), [](const auto& node) {
    if (auto* child = std::get_if<ChildGraph>(&node->work)) return child->graph->has_memory_nodes();
    CUgraphNodeType type = node->type();
    return type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE;
  });
}

bool Graph::has_conditionals() const {
  return std::any_of(nodes_.begin(), nodes_.end(), [](const auto& node) {
    if (auto* child = std::get_if<ChildGraph>(&node->work)) return child->graph->has_conditionals();
    return node->type() == CU_GRAPH_NODE_TYPE_CONDITIONAL;
  });
}

}  // namespace lambent::emulated_cuda
