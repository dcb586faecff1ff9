// Graph and ExecutableGraph: kernels and what they wait for, launched together and changed in
// place, with loops that the device ends by itself. Resources of one thread with the device's
// context current; the Driver outlives them.
#pragma once

#include <functional>
#include <span>
#include <utility>

#include "core/base/result.h"
#include "gpu/cuda/device.h"
#include "gpu/cuda/driver.h"

namespace lambent::cuda {

// A kernel as a node of a graph. The parameters are copied when it is added or changed.
struct KernelNode {
  CUfunction function = nullptr;
  Dimensions grid, block;
  unsigned shared_bytes = 0;
  std::span<void* const> parameters;  // one pointer for each
};

// Launches it by itself; for what is launched once.
Result<void> launch(const Driver& driver, const KernelNode& node, CUstream stream);

class Graph;

// Where nodes are added: a graph, or the body of a loop in one. A view; the graph outlives it.
class GraphNodes {
 public:
  // Nodes are the graph's. Each begins when all of `after` have ended.
  Result<CUgraphNode> add_kernel(const KernelNode& node, std::span<const CUgraphNode> after) const;
  // A node that does all of another graph, which is copied.
  Result<CUgraphNode> add_child(const Graph& child, std::span<const CUgraphNode> after) const;
  // A node that does nothing: what waits for it waits for all of `after`.
  Result<CUgraphNode> add_empty(std::span<const CUgraphNode> after) const;
  // A number that kernels of this graph set (cudaGraphSetConditional) and one loop of it reads,
  // undefined until then. UNIMPLEMENTED if the driver has no such loops.
  Result<CUgraphConditionalHandle> add_condition() const;
  // A node that does its body, empty at first, again and again while the condition is not zero.
  struct Loop;
  Result<Loop> add_loop(CUgraphConditionalHandle condition,
                        std::span<const CUgraphNode> after) const;

 protected:
  GraphNodes(const Driver* driver, CUgraph graph) : driver_(driver), graph_(graph) {}

  const Driver* driver_;
  CUgraph graph_;
};
struct GraphNodes::Loop {
  CUgraphNode node;
  GraphNodes body;
};

class Graph : public GraphNodes {
 public:
  static Result<Graph> create(const Driver& driver);
  // Of what `work` queues on the stream, which is idle; none of it is done. No other thread uses
  // the stream meanwhile; other threads may call the driver as ever. The error of `work`, if it has
  // one.
  static Result<Graph> capture(const Driver& driver, CUstream stream,
                               const std::function<Result<void>()>& work);
  Graph(Graph&& other) noexcept : GraphNodes(other.driver_, std::exchange(other.graph_, nullptr)) {}
  Graph& operator=(Graph&&) = delete;
  ~Graph();

  // What is instantiated from it, or updated by it, later has the kernel so.
  Result<void> change_kernel(CUgraphNode node, const KernelNode& kernel);
  CUgraph get() const { return graph_; }

 private:
  Graph(const Driver* driver, CUgraph graph) : GraphNodes(driver, graph) {}  // null when moved from
};

class ExecutableGraph {
 public:
  // The graph must stay: its nodes name those of this one.
  static Result<ExecutableGraph> instantiate(const Driver& driver, const Graph& graph);
  ExecutableGraph(ExecutableGraph&& other) noexcept
      : driver_(other.driver_), exec_(std::exchange(other.exec_, nullptr)) {}
  ExecutableGraph& operator=(ExecutableGraph&&) = delete;
  ~ExecutableGraph();

  // From the next launch on; launches that are under way keep what they began with.
  Result<void> change_kernel(CUgraphNode node, const KernelNode& kernel);
  // The node's graph has the kernels of this one, which has the same shape. On an error nothing has
  // changed.
  Result<void> change_child(CUgraphNode node, const Graph& child);
  // The same for all kernels at once: they become what they are in the graph, loops included.
  Result<void> update(const Graph& graph);
  Result<void> launch(CUstream stream) const;

 private:
  ExecutableGraph(const Driver* driver, CUgraphExec exec) : driver_(driver), exec_(exec) {}

  const Driver* driver_;
  CUgraphExec exec_;  // null when moved from
};

}  // namespace lambent::cuda
