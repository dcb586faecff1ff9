// An executable graph: a private copy of the graph that it was made from, which parameter updates
// change, and the flat form of it that launches run. Under the lock of the graphs, except where
// said.
#pragma once

#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "core/base/mutex.h"
#include "emulator/emulated_cuda/graph.h"

namespace lambent::emulated_cuda {

struct ExecBody;

// The choice that a conditional node makes among its bodies.
struct ExecChoice {
  std::shared_ptr<ConditionalValue> value;
  CUgraphConditionalNodeType type;
  std::vector<std::shared_ptr<const ExecBody>> bodies;
};

struct ExecNode {
  Operation operation;  // Empty for what has no work of its own, and for disabled nodes
  std::shared_ptr<Context> context;
  std::shared_ptr<const ExecChoice> choice;  // of a conditional node
  uint32_t dependencies = 0;
  std::vector<uint32_t> dependents;
};

// Nodes in topological order, child graphs spliced in. Never changed once made: a launch that is
// under way keeps the form that it began with.
struct ExecBody {
  std::vector<ExecNode> nodes;
  std::vector<uint32_t> roots;
  uint32_t node_count = 0;  // bodies included, for the cost of a launch
  std::vector<std::shared_ptr<ConditionalValue>> values;  // bodies included
  std::set<std::shared_ptr<Context>> contexts;            // likewise
  std::vector<CUdeviceptr> allocations, frees;            // of memory nodes, here and in children
};

std::shared_ptr<const ExecBody> flatten(const Graph& graph);

struct GraphExec {
  std::shared_ptr<Graph> graph;                    // private copy
  std::unordered_map<uint64_t, GraphNode*> twins;  // in it, by the id of the original node
  std::weak_ptr<Graph> source;                     // what it was made from
  unsigned long long flags = 0;
  std::shared_ptr<const ExecBody> body;

  Mutex launch_mutex;  // guards the order of launches; taken before the graphs' lock
  CompletionPtr last GUARDED_BY(launch_mutex);  // the end of the last launch
};

// Checks what instantiation documents. On failure `result` and `offender` say more.
CUresult check_instantiation(const Graph& graph, unsigned long long flags,
                             CUgraphInstantiateResult* result, GraphNode** offender);
std::shared_ptr<GraphExec> make_exec(GraphIndex& index, const std::shared_ptr<Graph>& graph,
                                     unsigned long long flags) REQUIRES(index.mutex);

// Takes the parameters of a graph of the same shape over into the copy that an executable graph
// has; all of them or none.
CUresult update_graph(Graph& own, const Graph& graph, CUgraphExecUpdateResultInfo* info);

// Kernels, copies and fills.
bool can_be_disabled(CUgraphNodeType type);

// Whether an executable node may change to `work`: the rules of single-node updates.
CUresult check_node_update(const GraphNode& node, const NodeWork& work,
                           const std::shared_ptr<Context>& context);

}  // namespace lambent::emulated_cuda
