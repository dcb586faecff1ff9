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
constexpr std::string_view kReady = "READY";
constexpr size_t kPage = 1'000;
// Of which it is remembered that a client unloaded them; of more it is not.
constexpr size_t kMostUnloaded = 10'000;

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
                               http::Responder responder) {
  responder.send(answer_to(caller, request));
}

http::Response InferenceFrontend::answer_to(const Caller& caller, const http::Request& request) {
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
    return is_post ? index_of(caller.tenant, request.body) : wrong_method("POST");
  }
  if (const std::string model = model_to_unload(path); !model.empty()) {
    return is_post ? unload({caller.tenant, model}) : wrong_method("POST");
  }
  return inference_error(404, "there is nothing at " + std::string(path));
}

std::optional<http::Response> InferenceFrontend::answer_to_model(const Caller& caller,
                                                                 const FunctionTarget& target,
                                                                 std::string_view method) {
  const FunctionName model{caller.tenant, target.name};
  if (target.protocol != Protocol::kInference || unloaded_.empty()) return std::nullopt;
  // What runs a model, such as `infer`, loads it as well.
  const bool loads = method == "POST";
  if (!target.asks_readiness && !loads) return std::nullopt;
  std::vector<std::string> versions{target.model_version};
  if (target.model_version.empty() || target.loads_model) versions = versions_of(model);
  if (loads) {
    for (const std::string& version : versions) unloaded_.erase(record_of(model, version));
    return std::nullopt;
  }
  const Sandboxes sandboxes = service_.sandbox_status(caller.tenant, Metering::kNone);
  const bool none_is_ready = std::ranges::all_of(versions, [&](const std::string& version) {
    return is_unloaded(record_of(model, version), sandboxes);
  });
  if (!none_is_ready) return std::nullopt;
  return inference_error(503, "model '" + model.name +
                                  "' is not ready: a client unloaded it. Load it, or send it a "
                                  "request, which loads it");
}

void InferenceFrontend::note_unloaded(const FunctionName& record) {
  if (unloaded_.size() >= kMostUnloaded) {
    std::erase_if(unloaded_,
                  [this](const auto& each) { return !service_.find_function(each.first).ok(); });
  }
  if (unloaded_.size() >= kMostUnloaded) return;
  std::set<SandboxId>& had = unloaded_[record];
  had.clear();
  for (const SandboxStatus& sandbox : service_.sandbox_status(record.tenant, Metering::kNone)) {
    if (sandbox.function == record) had.insert(sandbox.id);
  }
}

bool InferenceFrontend::is_unloaded(const FunctionName& record, const Sandboxes& sandboxes) const {
  const auto found = unloaded_.find(record);
  return found != unloaded_.end() && std::ranges::all_of(sandboxes, [&](const auto& sandbox) {
           return sandbox.function != record || found->second.contains(sandbox.id);
         });
}

// One that no client unloaded is loaded by the first request at the latest, so it is always ready
// for one.
InferenceFrontend::ModelState InferenceFrontend::state_of(const FunctionName& record,
                                                          ModelTier tier,
                                                          const Sandboxes& sandboxes) const {
  if (!is_unloaded(record, sandboxes)) return {kReady, ""};
  if (tier != ModelTier::kDisk) return {"UNLOADING", ""};
  return {"UNAVAILABLE", "unloaded"};
}

http::Response InferenceFrontend::unload(const FunctionName& model) {
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
    note_unloaded(record);
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

http::Response InferenceFrontend::index_of(TenantId tenant, const std::string& body) const {
  const auto asked = body.empty() ? json::object() : json::parse(body, nullptr, false);
  if (!asked.is_object()) return inference_error(400, "the request is no JSON object");
  const auto ready = asked.find("ready");
  if (ready != asked.end() && !ready->is_boolean()) {
    return inference_error(400, "ready is true or false");
  }
  const bool only_ready = ready != asked.end() && ready->get<bool>();
  const Sandboxes sandboxes = service_.sandbox_status(tenant, Metering::kNone);
  const std::map<std::string, ModelTier> tiers = tiers_of(sandboxes);
  json models = json::array();
  std::string after;
  for (;;) {
    const auto page = service_.list_functions(tenant, after, kPage);
    for (const FunctionSpec& spec : page) {
      if (!is_model(spec)) continue;
      for (const std::string& version : versions_of(spec.name)) {
        const FunctionName record = record_of(spec.name, version);
        const auto found = tiers.find(record.name);
        const ModelTier tier = found == tiers.end() ? ModelTier::kDisk : found->second;
        const ModelState state = state_of(record, tier, sandboxes);
        if (only_ready && state.name != kReady) continue;
        models.push_back({{"name", spec.name.name},
                          {"version", version},
                          {"state", state.name},
                          {"reason", state.reason},
                          {"tier", name_of(tier)}});
      }
    }
    if (page.size() < kPage) return json_response(200, models);
    after = page.back().name.name;
  }
}

}  // namespace lambent::frontend
