#include "edge/frontend/lambda_route.h"

#include <cctype>
#include <span>
#include <vector>

#include "core/http/message.h"

namespace lambent::frontend {
namespace {

struct Method {
  std::string_view method;
  LambdaOperation operation;
};

constexpr Method kFunctions[] = {{"POST", LambdaOperation::kCreateFunction},
                                 {"GET", LambdaOperation::kListFunctions}};
constexpr Method kFunction[] = {{"GET", LambdaOperation::kGetFunction},
                                {"DELETE", LambdaOperation::kDeleteFunction}};
constexpr Method kConfiguration[] = {{"GET", LambdaOperation::kGetFunctionConfiguration},
                                     {"PUT", LambdaOperation::kUpdateFunctionConfiguration}};
constexpr Method kCode[] = {{"PUT", LambdaOperation::kUpdateFunctionCode}};
constexpr Method kInvocations[] = {{"POST", LambdaOperation::kInvoke}};
constexpr Method kTags[] = {{"GET", LambdaOperation::kListTags},
                            {"POST", LambdaOperation::kTagFunction},
                            {"DELETE", LambdaOperation::kUntagFunction}};
constexpr Method kVersions[] = {{"POST", LambdaOperation::kPublishVersion},
                                {"GET", LambdaOperation::kListVersions}};
constexpr Method kAliases[] = {{"POST", LambdaOperation::kCreateAlias},
                               {"GET", LambdaOperation::kListAliases}};
constexpr Method kAlias[] = {{"GET", LambdaOperation::kGetAlias},
                             {"PUT", LambdaOperation::kUpdateAlias},
                             {"DELETE", LambdaOperation::kDeleteAlias}};
constexpr Method kConcurrency[] = {{"PUT", LambdaOperation::kPutConcurrency},
                                   {"GET", LambdaOperation::kGetConcurrency},
                                   {"DELETE", LambdaOperation::kDeleteConcurrency}};
constexpr Method kProvisioned[] = {{"PUT", LambdaOperation::kPutProvisioned},
                                   {"GET", LambdaOperation::kGetProvisioned},
                                   {"DELETE", LambdaOperation::kDeleteProvisioned}};
constexpr Method kStreams[] = {{"POST", LambdaOperation::kInvokeWithStream}};
constexpr Method kUrl[] = {{"POST", LambdaOperation::kCreateUrlConfig},
                           {"GET", LambdaOperation::kGetUrlConfig},
                           {"PUT", LambdaOperation::kUpdateUrlConfig},
                           {"DELETE", LambdaOperation::kDeleteUrlConfig}};
constexpr Method kUrls[] = {{"GET", LambdaOperation::kListUrlConfigs}};
constexpr Method kEventInvoke[] = {{"PUT", LambdaOperation::kPutEventInvokeConfig},
                                   {"POST", LambdaOperation::kUpdateEventInvokeConfig},
                                   {"GET", LambdaOperation::kGetEventInvokeConfig},
                                   {"DELETE", LambdaOperation::kDeleteEventInvokeConfig}};
constexpr Method kEventInvokes[] = {{"GET", LambdaOperation::kListEventInvokeConfigs}};
constexpr Method kAccount[] = {{"GET", LambdaOperation::kGetAccountSettings}};

LambdaRoute choose(std::string_view method, std::span<const Method> known) {
  LambdaRoute route;
  for (const Method& one : known) {
    if (one.method == method) {
      route.operation = one.operation;
      return route;
    }
    route.allow += (route.allow.empty() ? "" : ", ") + std::string(one.method);
  }
  route.operation = LambdaOperation::kMethodNotAllowed;
  return route;
}

LambdaRoute unsupported(std::string_view feature) {
  LambdaRoute route;
  route.operation = LambdaOperation::kUnsupported;
  route.feature = feature;
  return route;
}

LambdaRoute none_of(std::string_view feature) {
  LambdaRoute route;
  route.operation = LambdaOperation::kGetNone;
  route.feature = feature;
  return route;
}

// functions/{name}/{what}
LambdaRoute route_part(std::string_view method, std::string_view what) {
  if (what == "configuration") return choose(method, kConfiguration);
  if (what == "code") return choose(method, kCode);
  if (what == "invocations") return choose(method, kInvocations);
  if (what == "versions") return choose(method, kVersions);
  if (what == "aliases") return choose(method, kAliases);
  if (what == "response-streaming-invocations") return choose(method, kStreams);
  if (what == "url") return choose(method, kUrl);
  if (what == "urls") return choose(method, kUrls);
  if (what == "concurrency") return choose(method, kConcurrency);
  if (what == "provisioned-concurrency") return choose(method, kProvisioned);
  if (what == "event-invoke-config") return choose(method, kEventInvoke);
  for (const std::string_view feature : {"policy", "code-signing-config", "recursion-config"}) {
    if (what == feature) return method == "GET" ? none_of(feature) : unsupported(feature);
  }
  for (const std::string_view feature : {"runtime-management-config", "invoke-async",
                                         "function-scaling-config", "durable-executions"}) {
    if (what == feature) return unsupported(feature);
  }
  return LambdaRoute();
}

// How its paths begin; d is a digit.
constexpr std::string_view kShape = "/dddd-dd-dd/";

std::vector<std::string_view> segments_of(std::string_view path) {
  std::vector<std::string_view> segments;
  while (!path.empty()) {
    path.remove_prefix(1);
    const size_t slash = path.find('/');
    segments.push_back(path.substr(0, slash));
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash);
  }
  // Some SDKs end the collection's path with a slash.
  if (!segments.empty() && segments.back().empty()) segments.pop_back();
  return segments;
}

}  // namespace

bool is_lambda_path(std::string_view path) {
  if (path.size() < kShape.size()) return false;
  for (size_t i = 0; i < kShape.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(path[i])) != 0;
    if (kShape[i] == 'd' ? !digit : path[i] != kShape[i]) return false;
  }
  return true;
}

bool is_layer_path(std::string_view path) {
  if (!is_lambda_path(path)) return false;
  path.remove_prefix(kShape.size());
  return path.substr(0, path.find('/')) == "layers";
}

LambdaRoute route_lambda(std::string_view method, std::string_view path) {
  if (!is_lambda_path(path)) return LambdaRoute();
  const std::vector<std::string_view> segments = segments_of(path);
  if (segments.size() < 2) return LambdaRoute();
  const std::string_view collection = segments[1];
  LambdaRoute route;
  if (collection == "functions" && segments.size() == 2) route = choose(method, kFunctions);
  if (collection == "functions" && segments.size() == 3) route = choose(method, kFunction);
  if (collection == "functions" && segments.size() >= 4) route = route_part(method, segments[3]);
  const bool is_of_alias =
      collection == "functions" && segments.size() == 5 && segments[3] == "aliases";
  if (is_of_alias) route = choose(method, kAlias);
  const bool lists_event_invoke = collection == "functions" && segments.size() == 5 &&
                                  segments[3] == "event-invoke-config" && segments[4] == "list";
  if (lists_event_invoke) route = choose(method, kEventInvokes);
  if (collection == "tags" && segments.size() == 3) route = choose(method, kTags);
  if (collection == "account-settings" && segments.size() == 2) route = choose(method, kAccount);
  for (const std::string_view feature :
       {"event-source-mappings", "code-signing-configs", "capacity-providers"}) {
    if (collection != feature) continue;
    const bool lists = method == "GET" && segments.size() == 2;
    return lists ? none_of(feature) : unsupported(feature);
  }
  for (const std::string_view feature : {"layers", "layers-by-arn", "durable-executions",
                                         "durable-execution-callbacks", "resource-policy"}) {
    if (collection == feature) return unsupported(feature);
  }
  const bool supported_part_goes_on = segments.size() > 4 && !is_of_alias && !lists_event_invoke &&
                                      route.operation != LambdaOperation::kUnsupported;
  if (supported_part_goes_on) return LambdaRoute();
  if (is_of_alias && !http::percent_decode(segments[4], route.alias)) return LambdaRoute();
  if (segments.size() >= 3 && !http::percent_decode(segments[2], route.function)) {
    return LambdaRoute();
  }
  return route;
}

}  // namespace lambent::frontend
