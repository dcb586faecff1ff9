// Graphs: the graphs that one process has made executable. The graphs that a program builds are its
// own; only one that it wants to run comes here, as an image, and becomes a graph of the driver's
// that a single call launches. They count against the client's quotas and its host memory. A
// resource of the process's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpu/cuda/driver.h"
#include "gpu/forward_ring/calls.h"
#include "gpu/forward_server/answers.h"
#include "gpu/forward_server/client_memory.h"
#include "gpu/forward_server/completions.h"
#include "gpu/forward_server/executable_graph.h"
#include "gpu/forward_server/gates.h"
#include "gpu/forward_server/graph_checker.h"
#include "gpu/forward_server/handles.h"
#include "gpu/forward_server/host_functions.h"
#include "gpu/forward_server/image_upload.h"
#include "gpu/forward_server/streams.h"

namespace lambent::forward_server {

class Graphs {
 public:
  using Call = forward_ring::Call;

  // How the functions of their host nodes are run.
  struct HostNodes {
    Gates& gates;
    HostFunctions& functions;
  };
  // All outlive it.
  Graphs(const cuda::Driver& driver, ClientMemory& memory, ImageUpload& upload, Streams& streams,
         Completions& completions, HostNodes host_nodes, GraphChecker checker, Answers& answers)
      : driver_(driver),
        memory_(memory),
        upload_(upload),
        streams_(streams),
        completions_(completions),
        gates_(host_nodes.gates),
        host_functions_(host_nodes.functions),
        checker_(checker),
        answers_(answers) {}
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  // False if the call is not one about graphs. `data` came behind the call.
  bool handle(const Call& call, std::span<const char> data);
  // Nothing of them runs any more.
  void release_all_of_context(uint64_t context);
  void release_all_of_module(uint64_t module);

 private:
  void instantiate(const Call& call);
  CUresult make(const std::string& image, ExecutableGraph& graph, uint64_t flags, uint64_t* wrong);
  CUresult take_quotas(ExecutableGraph& graph, const std::vector<GraphNode>& nodes);
  CUresult take_host_places(const std::vector<GraphNode>& nodes,
                            std::vector<ExecutableGraph::HostPlace>* places);
  void update(const Call& call);
  void set_node(const Call& call, std::span<const char> data);
  void enable_node(const Call& call);
  CUresult upload(const Call& call);
  CUresult launch(const Call& call);
  CUresult queue(const Call& call, ExecutableGraph& graph);
  CUresult add_host_functions(ExecutableGraph& graph);
  void add_host_function(CUstream stream, const ExecutableGraph& graph,
                         const ExecutableGraph::HostPlace& place);
  CUresult destroy(uint64_t number);
  void release_destroyed();
  void release(ExecutableGraph& graph);
  template <typename IsOne>
  void release_if(IsOne is_one);
  ExecutableGraph* find(uint64_t number);

  const cuda::Driver& driver_;
  ClientMemory& memory_;
  ImageUpload& upload_;
  Streams& streams_;
  Completions& completions_;
  Gates& gates_;
  HostFunctions& host_functions_;
  const GraphChecker checker_;
  Answers& answers_;
  HandleTable<std::shared_ptr<ExecutableGraph>> table_{nullptr};
  // They may be running still; those of the first are waited for.
  std::vector<std::shared_ptr<ExecutableGraph>> graphs_to_end_, destroyed_;
};

}  // namespace lambent::forward_server
