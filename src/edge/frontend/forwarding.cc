#include "edge/frontend/forwarding.h"

#include "core/domain/kernel_graph_service.h"
#include "edge/frontend/function_target.h"
#include "edge/frontend/lambda_name.h"
#include "edge/frontend/lambda_route.h"
#include "edge/frontend/native_path.h"
#include "edge/frontend/node_answers.h"
#include "edge/frontend/openai_call.h"

namespace lambent::frontend {
namespace {

using http::Destination;

std::optional<Forwarding> forwarding_of_invoke(const http::Request& request, std::string function) {
  const std::string_view type = request.headers.get("X-Amz-Invocation-Type");
  if (type == "DryRun") return std::nullopt;
  return Forwarding{type == "Event" ? Destination::kAnyNodeAndMore : Destination::kAnyNode,
                    std::move(function)};
}

// The name and qualifier that a path and a query give together; nothing of what is none.
std::optional<std::string> qualified_name(const http::Request& request, const std::string& text) {
  const auto name = parse_lambda_name(text);
  if (!name.ok()) return std::nullopt;
  std::string qualifier = http::query_value(http::query_of(request.target), "Qualifier");
  if (!name->qualifier.empty()) qualifier = name->qualifier;
  if (qualifier.empty() || qualifier == "$LATEST") return name->name;
  return name->name + ":" + qualifier;
}

// Without a qualifier; empty: it names none.
std::string function_in(const std::string& text) {
  const auto name = parse_lambda_name(text);
  return name.ok() ? name->name : std::string();
}

std::optional<Forwarding> forwarding_of_lambda(const http::Request& request) {
  const LambdaRoute route = route_lambda(request.method, http::path_of(request.target));
  switch (route.operation) {
    case LambdaOperation::kInvoke:
    case LambdaOperation::kInvokeWithStream: {
      auto function = qualified_name(request, route.function);
      if (!function) return std::nullopt;
      return forwarding_of_invoke(request, *std::move(function));
    }
    case LambdaOperation::kGetFunction:
    case LambdaOperation::kGetFunctionConfiguration:
    case LambdaOperation::kListFunctions:
    case LambdaOperation::kListTags:
    case LambdaOperation::kListVersions:
    case LambdaOperation::kListAliases:
    case LambdaOperation::kGetAlias:
    case LambdaOperation::kGetConcurrency:
    case LambdaOperation::kGetProvisioned:
    case LambdaOperation::kGetUrlConfig:
    case LambdaOperation::kListUrlConfigs:
    case LambdaOperation::kGetNone:
    case LambdaOperation::kGetEventInvokeConfig:
    case LambdaOperation::kListEventInvokeConfigs:
      return Forwarding{Destination::kHomeOrHere, function_in(route.function)};
    case LambdaOperation::kCreateFunction:
    case LambdaOperation::kDeleteFunction:
    case LambdaOperation::kUpdateFunctionConfiguration:
    case LambdaOperation::kUpdateFunctionCode:
    case LambdaOperation::kTagFunction:
    case LambdaOperation::kUntagFunction:
    case LambdaOperation::kPutConcurrency:
    case LambdaOperation::kDeleteConcurrency:
    case LambdaOperation::kPutProvisioned:
    case LambdaOperation::kDeleteProvisioned:
    case LambdaOperation::kCreateUrlConfig:
    case LambdaOperation::kUpdateUrlConfig:
    case LambdaOperation::kDeleteUrlConfig:
    case LambdaOperation::kPutEventInvokeConfig:
    case LambdaOperation::kUpdateEventInvokeConfig:
    case LambdaOperation::kDeleteEventInvokeConfig:
    case LambdaOperation::kPublishVersion:
    case LambdaOperation::kCreateAlias:
    case LambdaOperation::kUpdateAlias:
    case LambdaOperation::kDeleteAlias:
      return Forwarding{Destination::kHome, function_in(route.function)};
    case LambdaOperation::kGetAccountSettings:
    case LambdaOperation::kUnsupported:
    case LambdaOperation::kMethodNotAllowed:
    case LambdaOperation::kUnknown:
      return std::nullopt;
  }
  return std::nullopt;
}

// Its bytes are brought to the node that is asked; the store seeks them.
std::optional<Forwarding> forwarding_of_object(const http::Request& request) {
  if (asks_only_here(request)) return std::nullopt;
  if (request.method == "HEAD") return Forwarding{Destination::kWhoKnows, ""};
  if (request.method == "DELETE") return Forwarding{Destination::kAllWhoKnow, ""};
  return std::nullopt;
}

// Volumes and layers. The home keeps them, also where all share a catalog.
std::optional<Forwarding> forwarding_of_kept(const http::Request& request) {
  if (asks_only_here(request)) return std::nullopt;
  return Forwarding{Destination::kHomeOnly, ""};
}

// Which function serves the model is found by the node that is asked, which then names it.
std::optional<Forwarding> forwarding_of_openai(const http::Request& request,
                                               std::string_view path) {
  if (is_openai_list(path)) return Forwarding{Destination::kHomeOrHere, ""};
  const std::string_view function = request.headers.get(kServingFunction);
  if (function.empty()) return std::nullopt;
  return Forwarding{Destination::kAnyNode, std::string(function)};
}

// Graphs that come with requests are kept by each node for itself.
std::optional<Forwarding> forwarding_of_graph(const http::Request& request,
                                              const std::vector<std::string>& parts) {
  if (parts.size() < 3 || asks_only_here(request)) return std::nullopt;
  if (request.method == "DELETE") return Forwarding{Destination::kAllWhoKnow, ""};
  std::string function(kKeptGraphPrefix);
  function += parts[2].substr(0, kKeptGraphDigits);
  return Forwarding{Destination::kHereOrAnyNode, std::move(function), true};
}

std::optional<Forwarding> forwarding_of_native(const http::Request& request) {
  const auto parts = path_parts(http::path_of(request.target));
  if (!parts || parts->at(0) != "v1") return std::nullopt;
  const bool cancels = request.method == "POST" && parts->back() == "cancel";
  if (parts->at(1) == "invocations" && parts->size() >= 3 && (request.method == "GET" || cancels)) {
    return Forwarding{Destination::kWhoKnows, ""};
  }
  if (parts->at(1) == "graphs") return forwarding_of_graph(request, *parts);
  if (parts->at(1) == "volumes") return forwarding_of_kept(request);
  if (parts->at(1) == "objects" && parts->size() == 3) return forwarding_of_object(request);
  if (parts->at(1) != "functions" || parts->size() < 3) return std::nullopt;
  const std::string& function = parts->at(2);
  if (parts->size() == 3) {
    if (request.method != "PUT") return std::nullopt;
    return Forwarding{Destination::kHome, function, true};
  }
  const std::string& what = parts->at(3);
  if (parts->size() == 4 && what == "invocations" && request.method == "POST") {
    return Forwarding{Destination::kAnyNode, function};
  }
  // Of a pipeline, which not every node has on slices; what one node has is asked of that one.
  const bool is_of_pipeline = what == "pipeline" || what == "profile";
  if (parts->size() == 4 && is_of_pipeline && !asks_only_here(request)) {
    return Forwarding{Destination::kAnyNode, function};
  }
  const bool is_catalog = what == "versions" || what == "aliases" || what == "revisions" ||
                          what == "rollback" || what == "code";
  if (!is_catalog) return std::nullopt;
  return Forwarding{request.method == "GET" ? Destination::kHomeOrHere : Destination::kHome,
                    function};
}

}  // namespace

std::optional<Forwarding> forwarding_of(const http::Request& request,
                                        std::string_view function_domain) {
  if (auto target = function_target(request, function_domain)) {
    std::string name = std::move(target->name);
    if (!target->model_version.empty()) name += ":" + target->model_version;
    return Forwarding{Destination::kAnyNode, std::move(name)};
  }
  const std::string_view path = http::path_of(request.target);
  if (is_openai_path(path)) return forwarding_of_openai(request, path);
  if (is_layer_path(path)) return forwarding_of_kept(request);
  if (is_lambda_path(path)) return forwarding_of_lambda(request);
  return forwarding_of_native(request);
}

}  // namespace lambent::frontend
