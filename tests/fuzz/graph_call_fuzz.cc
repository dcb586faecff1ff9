// A call on graphs that come with requests: method, path, the headers Content-Type, X-Lambent-Needs
// and X-Lambent-Outputs, a line each; the rest is the body.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/check.h"
#include "core/domain/kernel_graph_service.h"
#include "core/domain/limits.h"
#include "edge/frontend/graph_call.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto line = [&bytes] {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    const std::string text(bytes.substr(0, end));
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    return text;
  };
  http::Request request;
  request.method = line();
  request.target = line();
  for (const char* header : {"Content-Type", "X-Lambent-Needs", "X-Lambent-Outputs"}) {
    request.headers.add(header, line());
  }
  request.body = bytes;
  const bool carries = frontend::carries_graph(request);
  frontend::Caller invoker;
  invoker.scopes = {Scope::kInvoke};
  for (const frontend::Caller& caller : {frontend::Caller(), invoker}) {
    const auto call = frontend::decode_graph_call(request, caller);
    if (const auto* refused = std::get_if<http::Response>(&call)) {
      CHECK(refused->status >= 400, "what is no call is an error");
    } else if (const auto* put = std::get_if<frontend::PutGraph>(&call)) {
      CHECK(is_graph_digest(put->digest), "a graph is named by a digest");
      CHECK(!put->package.empty(), "what is kept is something");
    } else if (const auto* run = std::get_if<frontend::RunGraph>(&call)) {
      CHECK(is_graph_digest(run->digest), "a graph is named by a digest");
      CHECK(run->package.has_value() == carries, "who brings a graph is told by its head");
      const bool may_bring = caller.scopes.has(Scope::kDeploy);
      CHECK(!run->package || may_bring, "code comes only from who may deploy");
      CHECK(run->request.outputs <= limits::kOutputs, "no more objects than are allowed");
      CHECK(run->request.needs.size() <= limits::kNeeds, "no list is longer than is allowed");
    }
  }
  return 0;
}
