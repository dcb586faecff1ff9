// Between the parameters of graph nodes as programs state them and the work that nodes hold.
#pragma once

#include <memory>
#include <optional>

#include "emulator/emulated_cuda/graph.h"
#include "gpu/cuda_abi/driver_types.h"

namespace lambent::emulated_cuda {

class Process;

// What makes a node, found in what a program asked for.
struct NodePlan {
  NodeWork work;
  std::shared_ptr<Context> context;
  std::optional<CUDA_MEMCPY3D> copy_request;
};

// Checks the parameters and plans a node of `graph`, under the lock of the graphs. A child graph is
// cloned or moved, bodies and memory are made here. `parameters` receives what it tells back.
CUresult plan_node(Process& process, Graph& graph, CUgraphNodeParams* parameters, NodePlan* plan);

// The same for new parameters of an existing node: nothing is made, so that only what can change is
// taken.
CUresult plan_change(Process& process, const GraphNode& node, const CUgraphNodeParams& parameters,
                     NodePlan* plan);

// The parameters of a node of the type that they are asked for; false for another.
bool tell(const GraphNode& node, CUDA_KERNEL_NODE_PARAMS* parameters);
bool tell(const GraphNode& node, CUDA_MEMCPY3D* parameters);
bool tell(const GraphNode& node, CUDA_MEMSET_NODE_PARAMS* parameters);
bool tell(const GraphNode& node, CUDA_HOST_NODE_PARAMS* parameters);
bool tell(const GraphNode& node, CUDA_MEM_ALLOC_NODE_PARAMS* parameters);
bool tell(const GraphNode& node, CUDA_BATCH_MEM_OP_NODE_PARAMS* parameters);

}  // namespace lambent::emulated_cuda
