// A graph as a program builds it: nodes, what they do, and the edges between them. Pure data, under
// the lock of its GraphIndex (Process::graphs); what runs is made from it (graph_exec.h).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <variant>
#include <vector>

#include "core/base/mutex.h"
#include "emulator/emulated_cuda/operations.h"
#include "emulator/emulated_cuda/user_objects.h"
#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_cuda {

class Graph;
struct ConditionalValue;
struct GraphNode;

// Every graph and node that a program can name by a handle, children and bodies included.
struct GraphIndex {
  Mutex mutex;  // of all graphs of the process
  std::unordered_map<const void*, Graph*> graphs GUARDED_BY(mutex);
  std::unordered_map<const void*, GraphNode*> nodes GUARDED_BY(mutex);
  // What cuGraphDestroy may end.
  std::unordered_map<const void*, std::shared_ptr<Graph>> owned GUARDED_BY(mutex);
  // By handle.
  std::unordered_map<const void*, std::weak_ptr<ConditionalValue>> conditionals GUARDED_BY(mutex);
  uint64_t next_id GUARDED_BY(mutex) = 1;

  Graph* graph(CUgraph handle) const REQUIRES(mutex);
  GraphNode* node(CUgraphNode handle) const REQUIRES(mutex);
};

// The 32-bit value behind a conditional handle, which is its address.
struct ConditionalValue {
  uint32_t value = 0;
  uint32_t launch_value = 0;
  bool assigned_at_launch = false;
  const void* context = nullptr;
  uint64_t graph_id = 0;
  bool used = false;  // by a conditional node
};

struct ChildGraph {
  std::shared_ptr<Graph> graph;
};

struct Conditional {
  std::shared_ptr<ConditionalValue> value;
  CUgraphConditionalNodeType type;
  std::vector<std::shared_ptr<Graph>> bodies;
  std::vector<CUgraph> handles;  // of the bodies, as the program was told them
};

constexpr unsigned kMostSwitchBodies = 1024;

using NodeWork = std::variant<Operation, ChildGraph, Conditional>;

struct Edge {
  GraphNode* node;  // the other end
  CUgraphEdgeData data;
};

struct GraphNode {
  Graph* graph;
  uint64_t id;
  uint64_t original_id;  // of the node that this one was cloned from; its own otherwise
  NodeWork work;
  std::shared_ptr<Context> context;           // where the work belongs; null: nowhere
  std::optional<CUDA_MEMCPY3D> copy_request;  // as the program gave it
  bool enabled = true;                        // in an executable graph
  std::vector<Edge> dependencies;
  std::vector<GraphNode*> dependents;  // in the order in which the edges were made

  CUgraphNodeType type() const;
  CUgraphNode handle() { return reinterpret_cast<CUgraphNode>(this); }
};

class Graph : public std::enable_shared_from_this<Graph> {
 public:
  // With an index, the graph and its nodes can be named; without, they are private to the driver.
  explicit Graph(GraphIndex* index, uint64_t id) : index_(index), id_(id) { enter(); }
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  uint64_t id() const { return id_; }
  CUgraph handle() { return reinterpret_cast<CUgraph>(this); }
  const std::vector<std::unique_ptr<GraphNode>>& nodes() const { return nodes_; }
  std::vector<GraphNode*> roots() const;
  std::vector<GraphNode*> leaves() const;
  size_t edge_count() const;

  // Each must be another node of this graph, with edge data that is understood.
  CUresult check_dependencies(const std::vector<Edge>& dependencies) const;
  GraphNode* add(uint64_t id, NodeWork work, std::shared_ptr<Context> context,
                 const std::vector<Edge>& dependencies);
  // Both ends lie in this graph; an edge that exists, or removing one that does not, is an error.
  CUresult connect(GraphNode* from, GraphNode* to, const CUgraphEdgeData& data);
  CUresult disconnect(GraphNode* from, GraphNode* to);
  void remove(GraphNode* node);

  // Dependencies before dependents, ties in the order of creation. Empty if there is a cycle (or no
  // node); `stuck`, if given, is then a node of a cycle or behind one.
  std::vector<GraphNode*> topological_order(GraphNode** stuck = nullptr) const;
  // Whether every node of `ends` is one of `from` or lies before one of them.
  static bool reaches(const std::vector<Edge>& from, const std::vector<Edge>& ends);

  // A deep copy, named in `index` if that is not null. `twins`: each node's copy by the node's id.
  std::shared_ptr<Graph> clone(GraphIndex* index, uint64_t* next_id,
                               std::unordered_map<uint64_t, GraphNode*>* twins) const;

  bool has_memory_nodes() const;  // here or in a child
  bool has_conditionals() const;  // likewise
  // Whether a node of this type may be in this graph.
  bool accepts(CUgraphNodeType type) const;

  std::vector<std::shared_ptr<ConditionalValue>>
      conditional_values;  // whose handles were made here
  UserReferences user_references;
  int executables = 0;      // that exist of this very graph
  bool capturing = false;   // a stream puts nodes into it: not to be instantiated
  bool body = false;        // of a conditional node: only some kinds of nodes may be in it
  Graph* parent = nullptr;  // whose node has this graph as a child or a body

 private:
  void enter();

  GraphIndex* index_;
  uint64_t id_;
  std::vector<std::unique_ptr<GraphNode>> nodes_;
};

// Whether the edge data asks for something that full dependencies do not give.
CUresult check_edge(const CUgraphEdgeData& data);

}  // namespace lambent::emulated_cuda
