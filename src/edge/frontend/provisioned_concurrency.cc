#include "edge/frontend/provisioned_concurrency.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "edge/frontend/function_json.h"
#include "edge/frontend/json_response.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/lambda_fault.h"
#include "edge/frontend/lambda_name.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

http::Response no_config(const FunctionName& name) {
  return response_of({.status = 404,
                      .type = "ProvisionedConcurrencyConfigNotFoundException",
                      .message = "there are no instances of " + name.name + " that are kept ready",
                      .code = ErrorCode::kNotFound});
}

// Instances that were asked for, and of which versions they are.
struct Config {
  FunctionName name;  // qualified
  unsigned requested = 0;
  std::vector<std::pair<FunctionSpec, unsigned>> of;
};

json to_json(const Config& config, const VersionService& service) {
  unsigned ready = 0;
  bool has_failed = false;
  Duration changed{};
  for (const auto& [spec, instances] : config.of) {
    const InstanceReport report = service.instances(spec.name);
    const unsigned here = std::min(instances, report.ready);
    ready += here;
    has_failed = has_failed || (here < instances && report.failures > 0);
    changed = std::max(changed, spec.last_modified);
  }
  FunctionSpec newest;
  newest.last_modified = changed;
  json shown = {{"RequestedProvisionedConcurrentExecutions", config.requested},
                {"AvailableProvisionedConcurrentExecutions", ready},
                {"AllocatedProvisionedConcurrentExecutions", ready},
                {"Status", ready >= config.requested ? "READY" : "IN_PROGRESS"},
                {"LastModified", frontend::to_json(newest)["LastModified"]}};
  if (has_failed) {
    shown["Status"] = "FAILED";
    shown["StatusReason"] = "sandboxes of it end by themselves; its log has lines INSTANCE failed";
  }
  return shown;
}

std::optional<Config> config_of_alias(const Alias& alias,
                                      const std::vector<FunctionSpec>& versions) {
  if (alias.provisioned == 0) return std::nullopt;
  Config config{.name = {alias.function.tenant, alias.function.name + ":" + alias.name},
                .requested = alias.provisioned};
  for (const FunctionSpec& spec : versions) {
    const unsigned instances = instances_of(alias, version_of(spec.name));
    if (instances > 0) config.of.emplace_back(spec, instances);
  }
  return config;
}

// Of all aliases, and of versions that have some which are no alias's. NOT_FOUND.
Result<std::vector<Config>> configs_of(const VersionService& service,
                                       const FunctionName& function) {
  ASSIGN_OR_RETURN(const auto versions, service.list_versions(function));
  ASSIGN_OR_RETURN(const auto aliases, service.list_aliases(function));
  std::vector<Config> configs;
  for (const Alias& alias : aliases) {
    if (auto config = config_of_alias(alias, versions)) configs.push_back(*std::move(config));
  }
  for (const FunctionSpec& spec : versions) {
    const std::string version = version_of(spec.name);
    const bool is_an_aliass = std::ranges::any_of(
        aliases, [&](const Alias& alias) { return instances_of(alias, version) > 0; });
    if (spec.min_instances == 0 || is_an_aliass) continue;
    configs.push_back(
        {.name = spec.name, .requested = spec.min_instances, .of = {{spec, spec.min_instances}}});
  }
  return configs;
}

void answer_one(const VersionService& versions, const FunctionName& name, int status,
                const std::function<void(http::Response)>& send) {
  const auto configs = configs_of(versions, function_of(name));
  if (!configs.ok()) return send(fault_response(configs.error()));
  const auto found = std::ranges::find(*configs, name, &Config::name);
  if (found == configs->end()) return send(no_config(name));
  send(json_response(status, to_json(*found, versions)));
}

void answer_list(const VersionService& versions, const FunctionName& function,
                 const std::function<void(http::Response)>& send) {
  const auto configs = configs_of(versions, function);
  if (!configs.ok()) return send(fault_response(configs.error()));
  json list = json::array();
  for (const Config& config : *configs) {
    list.push_back(to_json(config, versions));
    list.back()["FunctionArn"] = arn_of(config.name.name);
  }
  send(json_response(200, {{"ProvisionedConcurrencyConfigs", std::move(list)}}));
}

}  // namespace

void answer_provisioned(VersionService& versions, const ProvisionedCall& call,
                        std::function<void(http::Response)> send) {
  using enum ProvisionedCall::What;
  switch (call.what) {
    case kGet:
      return answer_one(versions, call.name, 200, send);
    case kList:
      return answer_list(versions, call.name, send);
    case kPut:
      return versions.provision(call.name, call.instances,
                                [&versions, call, send](const Result<void>& done) {
                                  if (!done.ok()) return send(fault_response(done.error()));
                                  answer_one(versions, call.name, 202, send);
                                });
    case kDelete:
      break;
  }
  const auto configs = configs_of(versions, function_of(call.name));
  if (!configs.ok()) return send(fault_response(configs.error()));
  if (std::ranges::find(*configs, call.name, &Config::name) == configs->end()) {
    return send(no_config(call.name));
  }
  versions.provision(call.name, 0, [send](const Result<void>& done) {
    http::Response response;
    response.status = 204;
    send(done.ok() ? std::move(response) : fault_response(done.error()));
  });
}

}  // namespace lambent::frontend
