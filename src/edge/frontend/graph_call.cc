#include "edge/frontend/graph_call.h"

#include <strings.h>

#include <utility>
#include <vector>

#include "core/domain/kernel_graph_service.h"
#include "core/http/multipart.h"
#include "edge/frontend/native_error.h"
#include "edge/frontend/native_path.h"
#include "edge/frontend/submission.h"

namespace lambent::frontend {
namespace {

constexpr std::string_view kGraphs = "/v1/graphs";
constexpr std::string_view kMultipart = "multipart/form-data";

bool is_multipart(std::string_view content_type) {
  return content_type.size() >= kMultipart.size() &&
         strncasecmp(content_type.data(), kMultipart.data(), kMultipart.size()) == 0;
}

Error bad_call(std::string what) { return {ErrorCode::kInvalidArgument, std::move(what)}; }

bool may_deploy(const Caller& caller) {
  return caller.scopes.has(Scope::kDeploy) || caller.scopes.has(Scope::kAdmin);
}

// The parts of a request that brings its graph: `package`, and `request` in JSON or `raw`, the
// bytes of all inputs.
Result<void> read_parts(const http::Request& request, RunGraph& call) {
  ASSIGN_OR_RETURN(const std::vector<http::Part> parts,
                   http::parse_multipart(request.headers.get("Content-Type"), request.body));
  bool has_request = false;
  call.request.content_type = "application/json";
  for (const http::Part& part : parts) {
    const bool is_raw = part.name == "raw";
    if (part.name == "package") {
      if (call.package) return bad_call("the part 'package' is there twice");
      call.package = std::string(part.content);
    } else if (part.name == "request" || is_raw) {
      if (has_request) return bad_call("the parts 'request' and 'raw' exclude each other");
      has_request = true;
      call.request.payload = std::string(part.content);
      if (is_raw) call.request.content_type = "application/octet-stream";
    } else {
      return bad_call("there is no part '" + part.name +
                      "' of a request with its graph: these are package, request and raw");
    }
  }
  if (!call.package || call.package->empty()) return bad_call("the part 'package' is missing");
  if (!has_request) call.request.payload = "{}";
  return {};
}

GraphCall decode_run(http::Request request, std::string digest, const Caller& caller) {
  RunGraph call;
  call.digest = std::move(digest);
  if (const auto read = read_submission(request, 0, call.request); !read.ok()) {
    return error_response(read.error());
  }
  if (!is_multipart(request.headers.get("Content-Type"))) {
    const std::string& type = call.request.content_type;
    const bool is_json = type.empty() || type.starts_with("application/json");
    call.request.payload = request.body.empty() && is_json ? "{}" : std::move(request.body);
    return call;
  }
  if (!may_deploy(caller)) {
    return error_response(
        Error{ErrorCode::kPermissionDenied,
              "a request that brings its graph needs the scope deploy, because its kernels are "
              "code; with invoke only, send the request for one that is kept"});
  }
  if (const auto read = read_parts(request, call); !read.ok()) return error_response(read.error());
  return call;
}

}  // namespace

bool is_graph_path(std::string_view path) {
  return path == kGraphs || path.starts_with(std::string(kGraphs) + "/");
}

bool carries_graph(const http::Request& request) {
  return request.method == "POST" && is_graph_path(http::path_of(request.target)) &&
         is_multipart(request.headers.get("Content-Type"));
}

GraphCall decode_graph_call(http::Request request, const Caller& caller) {
  const std::string path(http::path_of(request.target));
  const auto parts = path_parts(path);
  const bool is_run = parts && parts->size() == 4 && parts->at(3) == "invocations";
  if (!is_graph_path(path) || !parts || (parts->size() > 3 && !is_run)) return no_such_path(path);
  if (parts->size() == 2) {
    if (request.method != "GET") return method_not_allowed(request.method, "GET");
    return ListGraphs{};
  }
  std::string digest = parts->at(2);
  if (!is_graph_digest(digest)) {
    return error_response(bad_call(
        "a graph is named by the SHA-256 of its package: 64 hexadecimal digits in lower case"));
  }
  if (is_run) {
    if (request.method != "POST") return method_not_allowed(request.method, "POST");
    return decode_run(std::move(request), std::move(digest), caller);
  }
  if (request.method == "DELETE") return RemoveGraph{std::move(digest)};
  if (request.method != "PUT") return method_not_allowed(request.method, "PUT, DELETE");
  if (request.body.empty()) {
    return error_response(bad_call("the body is the package of the graph, a zip; it is empty"));
  }
  return PutGraph{std::move(digest), std::move(request.body)};
}

}  // namespace lambent::frontend
