#include "edge/frontend/event_invoke_config.h"

#include <array>
#include <nlohmann/json.hpp>

#include "core/domain/async_limits.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/lambda_name.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

// As core/domain/function_fields.h has them.
constexpr const char* kRetriesTag = "lambent:async-retries";
constexpr const char* kAgeTag = "lambent:async-max-age";
constexpr const char* kSuccessTag = "lambent:async-on-success";
constexpr const char* kFailureTag = "lambent:async-on-failure";
constexpr std::array<const char*, 4> kTags = {kRetriesTag, kAgeTag, kSuccessTag, kFailureTag};

Error invalid(const std::string& what) { return Error{ErrorCode::kInvalidArgument, what}; }

// Nothing if it is not given.
Result<std::optional<unsigned>> read_count(const json& object, const char* key, unsigned least,
                                           unsigned most) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::optional<unsigned>();
  const bool is_in_range = found->is_number_unsigned() && found->get<uint64_t>() >= least &&
                           found->get<uint64_t>() <= most;
  if (is_in_range) return std::optional<unsigned>(found->get<unsigned>());
  return invalid(std::string(key) + " must be " + std::to_string(least) + " to " +
                 std::to_string(most));
}

Result<std::string> read_destination(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::string();
  if (!found->is_object())
    return invalid("DestinationConfig." + std::string(key) + " is an object");
  const auto destination = found->find("Destination");
  if (destination == found->end() || destination->is_null()) return std::string();
  if (!destination->is_string()) return invalid("a Destination is the ARN of a function");
  const std::string text = destination->get<std::string>();
  if (text.empty()) return text;
  const auto name = qualified_lambda_name(text, "");
  if (name.ok()) return *name;
  return invalid("The destination " + text +
                 " is not supported: a destination is another function of the same tenant, by its "
                 "name or ARN");
}

Result<void> check_destination(
    const FunctionSpec& spec, const std::string& name,
    const std::function<Result<FunctionSpec>(const FunctionName&)>& find) {
  if (name.empty()) return {};
  const auto found = find({spec.name.tenant, name});
  if (!found.ok()) {
    return invalid("The destination " + arn_of(name) + " is invalid: " + found.error().message);
  }
  if (found->kind != FunctionKind::kHttp) return {};
  return invalid("The destination " + arn_of(name) +
                 " is an http function, which is not invoked with an event");
}

void set_tag(FunctionSpec& spec, const char* tag, const std::string& value) {
  if (value.empty()) {
    spec.tags.erase(tag);
  } else {
    spec.tags[tag] = value;
  }
}

json destination_json(const std::string& name) {
  return name.empty() ? json::object() : json{{"Destination", arn_of(name)}};
}

}  // namespace

Result<void> read_event_invoke_config(const json& object, EventInvokeCall& call) {
  ASSIGN_OR_RETURN(call.retries,
                   read_count(object, "MaximumRetryAttempts", 0, limits::kMostAsyncRetries));
  ASSIGN_OR_RETURN(call.max_age_s, read_count(object, "MaximumEventAgeInSeconds",
                                              static_cast<unsigned>(limits::kLeastEventAgeSeconds),
                                              static_cast<unsigned>(limits::kMostEventAgeSeconds)));
  const auto config = object.find("DestinationConfig");
  if (config != object.end() && !config->is_null()) {
    if (!config->is_object()) return invalid("DestinationConfig is an object");
    EventInvokeCall::Destinations destinations;
    ASSIGN_OR_RETURN(destinations.on_success, read_destination(*config, "OnSuccess"));
    ASSIGN_OR_RETURN(destinations.on_failure, read_destination(*config, "OnFailure"));
    call.destinations = std::move(destinations);
  }
  const bool names_one = call.destinations && (!call.destinations->on_success.empty() ||
                                               !call.destinations->on_failure.empty());
  const bool clears = call.destinations && call.what == EventInvokeCall::What::kUpdate;
  if (call.retries || call.max_age_s || names_one || clears) return {};
  return invalid(
      "You must specify at least one of MaximumRetryAttempts, MaximumEventAgeInSeconds and "
      "DestinationConfig");
}

Result<FunctionSpec> with_event_invoke_config(
    FunctionSpec spec, const EventInvokeCall& call,
    const std::function<Result<FunctionSpec>(const FunctionName&)>& find) {
  const bool may_be_new = call.what == EventInvokeCall::What::kPut;
  if (!may_be_new && !has_event_invoke_config(spec)) return no_event_invoke_config(spec.name);
  if (call.what != EventInvokeCall::What::kUpdate) {
    for (const char* tag : kTags) spec.tags.erase(tag);
  }
  if (call.what == EventInvokeCall::What::kDelete) return spec;
  if (call.destinations) {
    RETURN_IF_ERROR(check_destination(spec, call.destinations->on_success, find));
    RETURN_IF_ERROR(check_destination(spec, call.destinations->on_failure, find));
    set_tag(spec, kSuccessTag, call.destinations->on_success);
    set_tag(spec, kFailureTag, call.destinations->on_failure);
  }
  if (call.retries) set_tag(spec, kRetriesTag, std::to_string(*call.retries));
  if (call.max_age_s) set_tag(spec, kAgeTag, std::to_string(*call.max_age_s));
  return spec;
}

bool has_event_invoke_config(const FunctionSpec& spec) {
  return spec.asynchronous != AsyncSettings{};
}

json event_invoke_config_of(const FunctionSpec& spec) {
  const AsyncSettings& settings = spec.asynchronous;
  json config = {{"LastModified", seconds_of(spec.last_modified)},
                 {"FunctionArn", arn_of(spec.name.name) + ":$LATEST"},
                 {"DestinationConfig",
                  {{"OnSuccess", destination_json(settings.on_success)},
                   {"OnFailure", destination_json(settings.on_failure)}}}};
  if (settings.retries >= 0) config["MaximumRetryAttempts"] = static_cast<int>(settings.retries);
  if (settings.max_age_s > 0) {
    config["MaximumEventAgeInSeconds"] = static_cast<int>(settings.max_age_s);
  }
  return config;
}

Error no_event_invoke_config(const FunctionName& name) {
  return {ErrorCode::kNotFound,
          "The function " + arn_of(name.name) + ":$LATEST doesn't have an EventInvokeConfig"};
}

}  // namespace lambent::frontend
