// ExecutableGraph: a graph of a client's process as the driver runs it, made of nodes that were
// checked. A resource of the process's thread, which releases it before the context goes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/units.h"
#include "gpu/cuda/driver.h"
#include "gpu/forward_ring/graph_image.h"
#include "gpu/forward_server/functions.h"
#include "gpu/forward_server/shared_event.h"

namespace lambent::forward_server {

struct GraphNode {
  forward_ring::GraphNodeHead head;
  std::vector<uint32_t> dependencies;
  bool is_enabled = true;
  // Of a kernel.
  CUfunction function = nullptr;
  uint64_t module = 0;
  std::vector<char> parameters;
  ParameterPlaces places;
  std::vector<CUdeviceptr> pointers;  // words of the parameters that are addresses of the client's
  SharedEvent event;
};

class ExecutableGraph {
 public:
  // Where a host node is held until the process has run its function.
  struct HostPlace {
    size_t gate = 0;
    CUdeviceptr address = 0;
    SharedEvent due;  // recorded when the function may run
    uint32_t node = 0;
    CUgraphNode wait = nullptr;
  };

  // `counted`: what its image is counted for.
  ExecutableGraph(const cuda::Driver& driver, uint64_t context, Bytes counted)
      : counted(counted), driver_(driver), context_(context) {}
  ~ExecutableGraph() { release(); }
  ExecutableGraph(const ExecutableGraph&) = delete;
  ExecutableGraph& operator=(const ExecutableGraph&) = delete;

  // `places`: one for each host node. `wrong` is the node that the driver would not have.
  CUresult make(std::vector<GraphNode> nodes, std::vector<HostPlace> places, uint64_t flags,
                uint64_t* wrong);
  // All nodes again; structure and kinds stay, or nothing changes.
  CUresult update(std::vector<GraphNode> nodes, CUgraphExecUpdateResult* how, uint64_t* wrong);
  CUresult set_node(uint32_t index, GraphNode node);
  CUresult enable_node(uint32_t index, bool enabled);
  CUresult upload(CUstream stream) { return driver_->graph_upload(exec_, stream); }
  // The turns of its gates are those of the next launch.
  CUresult set_turn(const HostPlace& place, uint32_t turn);
  CUresult launch(CUstream stream);
  // The same in a stream that has a share of the multiprocessors: the kernels of a graph run in the
  // context of their module, which is the whole device, so each is launched by itself. What a host
  // node takes to hold the stream, `hold(place)` does.
  CUresult launch_one_by_one(CUstream stream,
                             const std::function<CUresult(const HostPlace&)>& hold);
  // Nothing of it runs any more.
  void release();

  uint64_t context() const { return context_; }
  const std::vector<GraphNode>& nodes() const { return nodes_; }
  const std::vector<HostPlace>& host_places() const { return places_; }
  bool uses_module(uint64_t module) const;
  // Waits for what is due; made when first asked for.
  CUresult notifier(CUstream* stream);

  Bytes counted;
  // Of the client's quotas: none if it has no nodes here.
  bool is_held = false, has_stream = false;
  size_t held_nodes = 0;
  static constexpr uint64_t kUnchecked = UINT64_MAX;
  // The erasures of address ranges when the memory of its enabled nodes was last looked at.
  uint64_t checked_at = 0;

 private:
  CUresult build(const std::vector<GraphNode>& nodes, CUgraph* graph,
                 std::vector<CUgraphNode>* handles, std::vector<HostPlace>* places,
                 uint64_t* wrong) const;
  CUresult add(CUgraph graph, const GraphNode& node, std::vector<CUgraphNode>& after,
               CUgraphNode* handle) const;
  CUresult queue(const GraphNode& node, CUstream stream) const;
  CUresult await_last(CUstream stream);
  CUresult add_host(CUgraph graph, const std::vector<CUgraphNode>& after, HostPlace& place) const;

  const cuda::Driver& driver_;
  const uint64_t context_;
  std::vector<GraphNode> nodes_;
  std::vector<HostPlace> places_;
  CUgraph graph_ = nullptr;  // of whose nodes the driver speaks
  CUgraphExec exec_ = nullptr;
  std::vector<CUgraphNode> handles_;
  CUstream notifier_ = nullptr;
  // Launches follow each other, in whichever way each is done.
  SharedEvent last_;
  bool last_was_one_by_one_ = false;
};

}  // namespace lambent::forward_server
