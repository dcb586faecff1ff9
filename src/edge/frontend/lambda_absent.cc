#include "edge/frontend/lambda_absent.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "edge/frontend/json_response.h"
#include "edge/frontend/lambda_fault.h"
#include "edge/frontend/lambda_name.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

// What does the same here, or comes near it.
constexpr std::pair<std::string_view, std::string_view> kInstead[] = {
    {"policy",
     "tokens say who may invoke a function, and AuthType NONE opens its URL to anyone who "
     "reaches the worker"},
    {"resource-policy", "tokens say who may invoke a function"},
    {"event-source-mappings", "clients and schedules (lambent:schedules) begin invocations"},
    {"invoke-async", "use Invoke with InvocationType Event"},
    {"durable-executions", "workflows keep what runs in steps"},
    {"durable-execution-callbacks", "workflows keep what runs in steps"},
    {"function-scaling-config",
     "lambent:min-instances and lambent:max-concurrency bound a function"},
};

}  // namespace

http::Response answer_of_none(std::string_view feature, std::string_view function) {
  if (feature == "event-source-mappings") {
    return json_response(200, {{"EventSourceMappings", json::array()}});
  }
  if (feature == "code-signing-configs") {
    return json_response(200, {{"CodeSigningConfigs", json::array()}});
  }
  if (feature == "capacity-providers") {
    return json_response(200, {{"CapacityProviders", json::array()}});
  }
  if (feature == "code-signing-config") {
    return json_response(200, {{"FunctionName", function}, {"CodeSigningConfigArn", ""}});
  }
  // Nothing looks for functions that call themselves.
  if (feature == "recursion-config") return json_response(200, {{"RecursiveLoop", "Allow"}});
  return fault_response(
      Error{ErrorCode::kNotFound, arn_of(function) + " has no '" + std::string(feature) + "'"});
}

std::string refusal_of_feature(std::string_view feature) {
  std::string said = "'" + std::string(feature) + "' of Lambda's API is not supported";
  for (const auto& [name, instead] : kInstead) {
    if (name == feature) said += ": " + std::string(instead);
  }
  return said;
}

}  // namespace lambent::frontend
