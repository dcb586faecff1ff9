#include "edge/frontend/inference_frontend.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/domain/model_function.h"
#include "core/http/forward_words.h"
#include "edge/frontend/json_response.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/model_tier.h"
#include "edge/frontend/outcome_headers.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

constexpr std::string_view kRoot = "/v2";
constexpr size_t kPage = 1'000;

http::Response wrong_method(const std::string& allowed) {
  http::Response response = inference_error(405, "this path takes " + allowed);
  response.headers.add("Allow", allowed);
  return response;
}

// NAME of /v2/repository/models/NAME/unload, decoded; of another path, or one that cannot be
// decoded, empty.
std::string model_to_unload(std::string_view path) {
  constexpr std::string_view kBefore = "/v2/repository/models/", kAfter = "/unload";
  if (!path.starts_with(kBefore) || !path.ends_with(kAfter)) return {};
  path.remove_prefix(kBefore.size());
  const std::string_view name = path.substr(0, path.find('/'));
  std::string model;
  const bool is_whole = name.size() + kAfter.size() == path.size();
  return is_whole && http::percent_decode(name, model) ? model : std::string();
}

bool is_model(const FunctionSpec& spec) {
  return serves_model(spec) || spec.kind == FunctionKind::kKernel;
}

}  // namespace

bool is_inference_path(std::string_view path) {
  return path == kRoot || (path.starts_with(kRoot) && path[kRoot.size()] == '/');
}

http::Response inference_error(int status, const std::string& message) {
  http::Response response = json_response(200, {{"error", message}});
  response.status = status;
  return response;
}

http::Response inference_error(const Error& error, Duration retry_after) {
  http::Response response = inference_error(http_status_of(error.code), error.message);
  http::tell_not_begun(response.headers, error.code, error.message);
  if (response.status == 429) add_retry_after(response.headers, retry_after);
  return response;
}

void InferenceFrontend::handle(const Caller& caller, const http::Request& request,
                               http::Responder responder) const {
  responder.send(answer_to(caller, request));
}

http::Response InferenceFrontend::answer_to(const Caller& caller,
                                            const http::Request& request) const {
  const std::string_view path = http::path_of(request.target);
  const bool is_get = request.method == "GET" || request.method == "HEAD";
  const bool is_post = request.method == "POST";
  if (path == "/v2" || path == "/v2/") {
    if (!is_get) return wrong_method("GET");
    json extensions = {"binary_tensor_data", "statistics", "model_configuration",
                       "model_repository"};
    if (has_shared_memory_) extensions.push_back("system_shared_memory");
    return json_response(
        200, {{"name", "lambent"}, {"version", version_}, {"extensions", std::move(extensions)}});
  }
  if (path == "/v2/health/live") {
    return is_get ? json_response(200, {{"live", true}}) : wrong_method("GET");
  }
  if (path == "/v2/health/ready") {
    if (!is_get) return wrong_method("GET");
    if (ready_()) return json_response(200, {{"ready", true}});
    http::Response response = json_response(200, {{"ready", false}});
    response.status = 503;
    return response;
  }
  if (path == "/v2/repository/index") {
    return is_post ? index_of(caller.tenant) : wrong_method("POST");
  }
  if (const std::string model = model_to_unload(path); !model.empty()) {
    return is_post ? unload({caller.tenant, model}) : wrong_method("POST");
  }
  return inference_error(404, "there is nothing at " + std::string(path));
}

http::Response InferenceFrontend::unload(const FunctionName& model) const {
  const auto spec = service_.find_function(model);
  if (!spec.ok() || !is_model(*spec)) {
    return inference_error(404, "there is no model '" + model.name + "'");
  }
  std::vector<FunctionName> records;
  for (const std::string& version : versions_of(model)) {
    records.push_back(record_of(model, version));
  }
  // All or none: those that are kept ready, which is refused, come first.
  std::ranges::stable_partition(records, [this](const FunctionName& record) {
    const auto kept = service_.find_function(record);
    return !kept.ok() || kept->min_instances > 0;
  });
  for (const FunctionName& record : records) {
    const auto unloaded = service_.unload(record);
    if (!unloaded.ok()) return inference_error(unloaded.error());
  }
  return json_response(200, json::object());
}

FunctionName InferenceFrontend::record_of(const FunctionName& model,
                                          const std::string& version) const {
  const auto number = version_number(version);
  if (!number) return model;
  FunctionName record = version_record(model, *number);
  // Of a model without versions its only one is called by a number, too.
  return service_.find_function(record).ok() ? record : model;
}

std::vector<std::string> InferenceFrontend::versions_of(const FunctionName& model) const {
  const auto published = versions_.list_versions(model);
  if (!published.ok() || published->empty()) return {std::string(kOnlyVersion)};
  std::vector<std::string> versions;
  for (const FunctionSpec& version : *published) versions.push_back(version_of(version.name));
  const bool has_serving = versions_.find_alias(model, std::string(kServingAlias)).ok();
  if (!has_serving) versions.emplace_back(kLatestVersion);
  return versions;
}

http::Response InferenceFrontend::index_of(TenantId tenant) const {
  const std::map<std::string, ModelTier> tiers =
      tiers_of(service_.sandbox_status(tenant, Metering::kNone));
  json models = json::array();
  std::string after;
  for (;;) {
    const auto page = service_.list_functions(tenant, after, kPage);
    for (const FunctionSpec& spec : page) {
      if (!is_model(spec)) continue;
      // It is loaded by the first request at the latest, so it is always ready for one.
      for (const std::string& version : versions_of(spec.name)) {
        const auto tier = tiers.find(record_of(spec.name, version).name);
        models.push_back(
            {{"name", spec.name.name},
             {"version", version},
             {"state", "READY"},
             {"reason", ""},
             {"tier", name_of(tier == tiers.end() ? ModelTier::kDisk : tier->second)}});
      }
    }
    if (page.size() < kPage) return json_response(200, models);
    after = page.back().name.name;
  }
}

}  // namespace lambent::frontend
