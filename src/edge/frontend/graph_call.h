// The calls on graphs of kernels that come with requests, decoded from HTTP. Values;
// decode_graph_call is a pure function and the only reader.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "core/domain/invocation.h"
#include "core/http/message.h"
#include "edge/frontend/caller.h"

namespace lambent::frontend {

// Whether it is "/v1/graphs" or below.
bool is_graph_path(std::string_view path);
// Whether the request brings the package of its graph, so that what it does is to be known later.
bool carries_graph(const http::Request& request);

struct ListGraphs {};
struct PutGraph {
  std::string digest;
  std::string package;
};
struct RemoveGraph {
  std::string digest;
};
// Runs a graph with one request.
struct RunGraph {
  std::string digest;
  std::optional<std::string> package;  // none: it is known already
  InvocationRequest request;           // without an id and a function; no outputs: it is answered
};

// A request that is no good call is the response that answers it.
using GraphCall = std::variant<http::Response, ListGraphs, PutGraph, RemoveGraph, RunGraph>;

// PERMISSION_DENIED for a request that brings a package without the scope deploy: what is in it is
// code.
GraphCall decode_graph_call(http::Request request, const Caller& caller);

}  // namespace lambent::frontend
