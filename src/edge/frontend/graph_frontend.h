// GraphFrontend: /v1/graphs: requests that bring the graph of kernels that they run, or name one
// that came before. On the loop thread.
#pragma once

#include "core/base/random.h"
#include "core/domain/invocation_service.h"
#include "core/domain/kernel_graph_service.h"
#include "core/http/server.h"
#include "edge/frontend/caller.h"
#include "edge/frontend/graph_call.h"

namespace lambent::frontend {

// The type of the error of a request whose graph is not kept: it is to be sent again with its
// package.
constexpr std::string_view kGraphNotFound = "Graph.NotFound";

class GraphFrontend {
 public:
  // All outlive the frontend; without `graphs` (null) there are none, and all is NOT_FOUND.
  GraphFrontend(KernelGraphService* graphs, InvocationService& service, Random& random)
      : graphs_(graphs), service_(service), random_(random) {}

  void handle(const Caller& caller, http::Request request, http::Responder responder);

 private:
  using Answer = std::shared_ptr<http::Responder>;

  void run(TenantId tenant, RunGraph call, const Answer& answer);
  // The graph is kept.
  void submit(const KeptGraph& graph, InvocationRequest request, const Answer& answer);

  KernelGraphService* const graphs_;
  InvocationService& service_;
  Random& random_;
};

}  // namespace lambent::frontend
