#include "edge/inference/model_route.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/domain/version.h"

namespace lambent::inference {
namespace {

// The decoded parts of a path between its slashes; empty if one cannot be decoded.
std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  if (path.starts_with('/')) path.remove_prefix(1);
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    std::string part;
    if (!http::percent_decode(path.substr(0, end), part)) return {};
    parts.push_back(std::move(part));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return parts;
}

std::string_view without_qualifier(std::string_view name) { return name.substr(0, name.find(':')); }

std::string list_of(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

}  // namespace

Result<Route> route_of(const ModelIdentity& model, std::string_view path) {
  using Parts = std::vector<std::string>;
  const Error nothing{ErrorCode::kNotFound, "there is nothing at " + std::string(path)};
  Parts parts = parts_of(path);
  if (parts.empty() || parts.front() != "v2") return nothing;
  parts.erase(parts.begin());
  if (parts.empty()) return Route::kServer;
  if (parts == Parts{"health", "live"}) return Route::kLive;
  if (parts == Parts{"health", "ready"}) return Route::kServerReady;
  if (parts == Parts{"models", "stats"}) return Route::kStats;
  const bool repository = parts.front() == "repository";
  if (repository) parts.erase(parts.begin());
  if (parts.size() < 2 || parts.front() != "models") return nothing;
  // An alias or a version may be named behind it, as of any function.
  if (without_qualifier(parts[1]) != model.name) {
    return Error{ErrorCode::kNotFound, "unknown model '" + parts[1] + "'; this is " + model.name};
  }
  parts.erase(parts.begin(), parts.begin() + 2);
  if (repository) {
    if (parts == Parts{"load"}) return Route::kLoad;
    return nothing;
  }
  if (parts.size() >= 2 && parts.front() == "versions") {
    if (parts[1] != model.version) {
      const std::string others = model.versions.empty() ? model.version : list_of(model.versions);
      return Error{ErrorCode::kNotFound,
                   "model '" + model.name + "' has no version " + parts[1] + "; it has " + others};
    }
    parts.erase(parts.begin(), parts.begin() + 2);
  }
  if (parts.empty()) return Route::kMetadata;
  if (parts == Parts{"ready"}) return Route::kReady;
  if (parts == Parts{"config"}) return Route::kConfig;
  if (parts == Parts{"stats"}) return Route::kStats;
  if (parts == Parts{"infer"}) return Route::kInfer;
  return nothing;
}

std::optional<http::Response> refusal_of_method(Route route, std::string_view method) {
  const bool is_post = route == Route::kInfer || route == Route::kLoad;
  if (is_post ? method == "POST" : method == "GET" || method == "HEAD") return std::nullopt;
  http::Response response =
      error_response(405, is_post ? "this takes POST" : "this takes GET; POST goes to .../infer");
  response.headers.add("Allow", is_post ? "POST" : "GET, HEAD");
  return response;
}

}  // namespace lambent::inference
