#include "edge/frontend/graph_frontend.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "edge/frontend/json_response.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/native_path.h"
#include "edge/frontend/outcome_headers.h"
#include "edge/frontend/payload_type.h"
#include "edge/frontend/submission.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

json json_of(const KeptGraph& graph) {
  return {{"digest", graph.digest},
          {"function", graph.function.name},
          {"package_bytes", graph.package.count},
          {"device_memory_bytes", graph.device_memory.count},
          {"last_used", seconds_of(graph.last_used)}};
}

http::Response kept_response(const Result<KeptGraph>& graph) {
  return graph.ok() ? json_response(200, json_of(*graph)) : error_response(graph.error());
}

http::Response not_found_response(const Error& error) {
  http::Response response = error_response(error);
  response.headers.add("x-lambent-error-type", std::string(kGraphNotFound));
  return response;
}

// What failed is an error here, whatever ran of it: its code says what to do next.
http::Response outcome_response(Result<InvocationResult> outcome, bool is_raw) {
  if (!outcome.ok()) return error_response(outcome.error());
  InvocationResult& result = *outcome;
  http::Response response;
  if (result.outcome == Outcome::kSucceeded) {
    response.headers.add("Content-Type", is_raw ? "application/octet-stream" : "application/json");
    response.body = std::move(result.payload);
  } else {
    const Error error = result.error.value_or(Error{ErrorCode::kUnknown, result.error_type});
    response = error_response(error, result.retry_after);
  }
  add_outcome(response.headers, result);
  return response;
}

}  // namespace

void GraphFrontend::handle(const Caller& caller, http::Request request, http::Responder responder) {
  if (graphs_ == nullptr) return responder.send(no_such_path(http::path_of(request.target)));
  GraphCall call = decode_graph_call(std::move(request), caller);
  if (auto* refusal = std::get_if<http::Response>(&call)) {
    return responder.send(std::move(*refusal));
  }
  if (std::holds_alternative<ListGraphs>(call)) {
    json graphs = json::array();
    for (const KeptGraph& graph : graphs_->list_graphs(caller.tenant)) {
      graphs.push_back(json_of(graph));
    }
    return responder.send(json_response(200, {{"graphs", std::move(graphs)}}));
  }
  if (const auto* remove = std::get_if<RemoveGraph>(&call)) {
    return responder.send(kept_response(graphs_->remove_graph(caller.tenant, remove->digest)));
  }
  // Shared because a callback must be copyable and a responder is not.
  const auto answer = std::make_shared<http::Responder>(std::move(responder));
  if (auto* put = std::get_if<PutGraph>(&call)) {
    return graphs_->put_graph(
        caller.tenant, std::move(put->digest), std::move(put->package),
        [answer](const Result<KeptGraph>& graph) { answer->send(kept_response(graph)); });
  }
  run(caller.tenant, std::move(std::get<RunGraph>(call)), answer);
}

void GraphFrontend::run(TenantId tenant, RunGraph call, const Answer& answer) {
  if (!call.package) {
    const auto graph = graphs_->find_graph(tenant, call.digest);
    if (!graph.ok()) return answer->send(not_found_response(graph.error()));
    return submit(*graph, std::move(call.request), answer);
  }
  graphs_->put_graph(
      tenant, std::move(call.digest), std::move(*call.package),
      [this, answer, request = std::move(call.request)](const Result<KeptGraph>& graph) {
        if (!graph.ok()) return answer->send(error_response(graph.error()));
        submit(*graph, request, answer);
      });
}

void GraphFrontend::submit(const KeptGraph& graph, InvocationRequest request,
                           const Answer& answer) {
  request.id = new_invocation_id(random_);
  request.function = graph.function;
  if (request.outputs > 0) return submit_for_objects(service_, std::move(request), *answer);
  const bool is_raw = !is_json(request.content_type);
  // Asked for before the answer can be sent.
  answer->on_disconnect([&service = service_, id = request.id] { service.forget(id); });
  service_.submit(std::move(request), [answer, is_raw](Result<InvocationResult> outcome) {
    answer->send(outcome_response(std::move(outcome), is_raw));
  });
}

}  // namespace lambent::frontend
