#include "edge/frontend/route_scopes.h"

#include <algorithm>
#include <array>
#include <vector>

#include "edge/frontend/lambda_route.h"
#include "edge/frontend/openai_call.h"

namespace lambent::frontend {
namespace {

constexpr Scopes kReaders = {Scope::kRead};
constexpr Scopes kInvokers = {Scope::kInvoke};
constexpr Scopes kDeployers = {Scope::kDeploy};
constexpr Scopes kAnyone = {Scope::kRead, Scope::kInvoke, Scope::kDeploy};

constexpr RouteScopes reads(Scopes scopes = kReaders) { return {.any_of = scopes}; }
constexpr RouteScopes changes(Scopes scopes) { return {.any_of = scopes, .audited = true}; }
constexpr RouteScopes kOperators = {.any_of = {Scope::kAdmin}, .audited = true};

RouteScopes scopes_of_lambda(std::string_view method, std::string_view path) {
  if (is_layer_path(path)) return method == "GET" ? reads(kAnyone) : changes(kDeployers);
  switch (route_lambda(method, path).operation) {
    case LambdaOperation::kInvoke:
    case LambdaOperation::kInvokeWithStream:
      return reads(kInvokers);
    case LambdaOperation::kListFunctions:
    case LambdaOperation::kGetAccountSettings:
      return reads();
    // Those who deploy and invoke look first whether a function is there.
    case LambdaOperation::kGetFunction:
    case LambdaOperation::kGetFunctionConfiguration:
    case LambdaOperation::kListTags:
    case LambdaOperation::kListVersions:
    case LambdaOperation::kListAliases:
    case LambdaOperation::kGetAlias:
    case LambdaOperation::kGetConcurrency:
    case LambdaOperation::kGetProvisioned:
    case LambdaOperation::kGetUrlConfig:
    case LambdaOperation::kListUrlConfigs:
    case LambdaOperation::kGetEventInvokeConfig:
    case LambdaOperation::kListEventInvokeConfigs:
      return reads(kAnyone);
    case LambdaOperation::kCreateFunction:
    case LambdaOperation::kDeleteFunction:
    case LambdaOperation::kUpdateFunctionCode:
    case LambdaOperation::kUpdateFunctionConfiguration:
    case LambdaOperation::kTagFunction:
    case LambdaOperation::kUntagFunction:
    case LambdaOperation::kPublishVersion:
    case LambdaOperation::kCreateAlias:
    case LambdaOperation::kUpdateAlias:
    case LambdaOperation::kDeleteAlias:
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
      return changes(kDeployers);
    // Nothing happens there, and the answer says so.
    default:
      return reads(kAnyone);
  }
}

// A path's pattern: '*' stands for one segment, and '**' at its end for all that follow.
struct Route {
  std::string_view method;  // empty: any
  std::string_view pattern;
  RouteScopes scopes;
};

constexpr Route kRoutes[] = {
    {"", "", {.open = true}},
    {"", "dashboard", {.open = true}},
    {"", "dashboard/**", {.open = true}},
    {"", "livez", {.open = true}},
    {"", "healthz", {.open = true}},
    {"", "readyz", {.open = true}},
    {"", "v2", {.open = true}},
    {"", "v2/health/live", {.open = true}},
    {"", "v2/health/ready", {.open = true}},
    {"", "v2/repository/index", reads(kAnyone)},
    {"", "v2/repository/models/*/unload", reads(kInvokers)},
    {"", "v2/systemsharedmemory/**", reads(kInvokers)},
    {"", "v2/cudasharedmemory/**", reads(kInvokers)},
    {"GET", "v1/models", reads(kAnyone)},
    {"GET", "v1/models/**", reads(kAnyone)},
    {"", "metrics", reads()},
    {"", "v1/version", reads(kAnyone)},
    {"", "v1/whoami", reads(kAnyone)},
    {"", "v1/settings", reads()},
    {"", "v1/activity/events", reads()},
    {"", "v1/activity/functions", reads()},
    {"", "v1/activity/functions/*", reads()},
    {"", "v1/activity/live", reads()},
    {"", "v1/activity/invocations", reads()},
    {"", "v1/activity/invocations/*", reads()},
    // A journal names the functions of all tenants.
    {"", "v1/invocations/*/why", {.any_of = {Scope::kAdmin}}},
    {"", "v1/what-if", {.any_of = {Scope::kAdmin}}},
    {"", "v1/functions", reads(kAnyone)},
    {"", "v1/sandboxes", reads()},
    {"", "v1/slices", reads()},
    {"", "v1/schedules", reads()},
    {"GET", "v1/secrets", reads({Scope::kDeploy, Scope::kRead})},
    {"PUT", "v1/secrets/*", changes(kDeployers)},
    {"DELETE", "v1/secrets/*", changes(kDeployers)},
    {"GET", "v1/graphs", reads({Scope::kInvoke, Scope::kRead})},
    {"PUT", "v1/graphs/*", changes(kDeployers)},
    {"DELETE", "v1/graphs/*", changes(kDeployers)},
    {"POST", "v1/graphs/*/invocations", reads(kInvokers)},
    {"GET", "v1/volumes", reads({Scope::kDeploy, Scope::kRead})},
    {"PUT", "v1/volumes/*", changes(kDeployers)},
    {"DELETE", "v1/volumes/*", changes(kDeployers)},
    {"GET", "v1/volumes/*/files", reads({Scope::kDeploy, Scope::kRead})},
    {"GET", "v1/volumes/*/files/**", reads({Scope::kDeploy, Scope::kRead})},
    {"PUT", "v1/volumes/*/files/**", changes(kDeployers)},
    {"DELETE", "v1/volumes/*/files/**", changes(kDeployers)},
    {"GET", "v1/volumes/*/uploads/**", reads(kDeployers)},
    {"", "v1/devices", reads()},
    {"", "v1/devices/*/drain", kOperators},
    {"", "v1/devices/*/undrain", kOperators},
    {"", "v1/invocations/*", reads({Scope::kInvoke, Scope::kRead})},
    {"", "v1/invocations/*/trace", reads({Scope::kInvoke, Scope::kRead})},
    {"", "v1/invocations/*/cancel", reads(kInvokers)},
    {"PUT", "v1/functions/*", changes(kDeployers)},
    {"GET", "v1/functions/*/versions", reads(kAnyone)},
    {"POST", "v1/functions/*/versions", changes(kDeployers)},
    {"DELETE", "v1/functions/*/versions/*", changes(kDeployers)},
    {"GET", "v1/functions/*/aliases", reads(kAnyone)},
    {"PUT", "v1/functions/*/aliases/*", changes(kDeployers)},
    {"DELETE", "v1/functions/*/aliases/*", changes(kDeployers)},
    {"GET", "v1/functions/*/revisions", reads(kAnyone)},
    {"POST", "v1/functions/*/rollback", changes(kDeployers)},
    {"GET", "v1/functions/*/code/parts", reads(kDeployers)},
    {"", "v1/functions/*/log", reads()},
    {"", "v1/functions/*/pipeline", reads(kAnyone)},
    {"", "v1/functions/*/profile", reads(kInvokers)},
    {"", "v1/functions/*/invocations", reads(kInvokers)},
    {"GET", "v1/objects", reads({Scope::kInvoke, Scope::kRead})},
    {"GET", "v1/objects/*", reads({Scope::kInvoke, Scope::kRead})},
    {"HEAD", "v1/objects/*", reads({Scope::kInvoke, Scope::kRead})},
    {"", "v1/objects", reads(kInvokers)},
    {"", "v1/objects/*", reads(kInvokers)},
};

bool matches(std::string_view pattern, std::string_view path) {
  for (;;) {
    if (pattern == "**") return true;
    const size_t pattern_end = std::min(pattern.find('/'), pattern.size());
    const size_t path_end = std::min(path.find('/'), path.size());
    const std::string_view segment = pattern.substr(0, pattern_end);
    if (segment != "*" && segment != path.substr(0, path_end)) return false;
    const bool pattern_ends = pattern_end == pattern.size();
    const bool path_ends = path_end == path.size();
    if (pattern_ends || path_ends) return pattern_ends && path_ends;
    pattern.remove_prefix(pattern_end + 1);
    path.remove_prefix(path_end + 1);
  }
}

}  // namespace

RouteScopes scopes_of(std::string_view method, std::string_view path) {
  if (is_lambda_path(path)) return scopes_of_lambda(method, path);
  if (is_for_openai_model(path)) return reads(kInvokers);
  if (!path.empty()) path.remove_prefix(1);
  const auto* const route =
      std::find_if(std::begin(kRoutes), std::end(kRoutes), [&](const Route& each) {
        return (each.method.empty() || each.method == method) && matches(each.pattern, path);
      });
  return route == std::end(kRoutes) ? kOperators : route->scopes;
}

}  // namespace lambent::frontend
