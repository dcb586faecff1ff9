#include "edge/frontend/lambda_call.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/base64.h"
#include "core/base/json_text.h"
#include "core/base/parse_number.h"
#include "core/domain/connection_key.h"
#include "core/domain/cors.h"
#include "core/domain/function_limits.h"
#include "core/domain/limits.h"
#include "core/http/trace_context.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/lambda_absent.h"
#include "edge/frontend/lambda_name.h"
#include "edge/frontend/lambda_route.h"
#include "edge/frontend/limits.h"
#include "edge/frontend/object_call.h"
#include "edge/frontend/payload_type.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

Error invalid(const std::string& what) { return Error{ErrorCode::kInvalidArgument, what}; }

// A part of a call, or the fault that answers it instead.
template <typename T>
LambdaCall call_or_fault(Result<T> result) {
  if (!result.ok()) return fault_of(result.error());
  return LambdaCall(std::move(*result));
}

// A request's JSON, with the package beside it.
struct JsonBody {
  json object = json::object();
  std::string text;  // all of it
  // The part of `text` that was left out of `object`; empty: none. It stays where it is when this
  // is moved, as only a long text has such a part.
  std::string_view cut;
};

Result<JsonBody> read_body(std::string body) {
  JsonBody read;
  if (body.empty()) return read;
  read.text = std::move(body);
  const CutJson cut = cut_long_string(read.text, "ZipFile");
  read.cut = cut.cut;
  ASSIGN_OR_RETURN(read.object, parse_json(cut.text));
  if (!read.object.is_object()) return invalid("the request must be a JSON object");
  return read;
}

// The field ZipFile of `object`, in base64 still. Takes it out of the body, in place.
Result<std::string> read_zip(const json& object, JsonBody& body) {
  for (const char* key : {"S3Bucket", "S3Key", "S3ObjectVersion", "SourceKMSKeyArn"}) {
    if (object.contains(key) && !object.at(key).is_null()) {
      return invalid(std::string(key) + " is not supported: send the code itself, as ZipFile");
    }
  }
  if (object.contains("ImageUri") && !object.at("ImageUri").is_null()) {
    return invalid("ImageUri is for functions of images, which have PackageType Image");
  }
  const auto found = object.find("ZipFile");
  if (found == object.end() || !found->is_string()) {
    return invalid("ZipFile, the base64 of the zipped code, is missing");
  }
  std::string text = found->get<std::string>();
  if (text == kCutMark && !body.cut.empty()) {
    const auto begin = static_cast<size_t>(body.cut.data() - body.text.data());
    body.text.resize(begin + body.cut.size());
    body.text.erase(0, begin);
    text = std::move(body.text);
  }
  if (text.empty()) return invalid("ZipFile is empty");
  if (text.size() % 4 != 0) return invalid("ZipFile is no valid base64");
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  const Bytes size(text.size() / 4 * 3 - padding);
  if (size > limits::kZippedCode) {
    return Error{ErrorCode::kOutOfRange, "the zip has " + to_string(size) + "; at most " +
                                             to_string(limits::kZippedCode) + " fit"};
  }
  return text;
}

Result<CreateFunction> decode_create(JsonBody body, const Caller& caller) {
  const json& object = body.object;
  CreateFunction create;
  ASSIGN_OR_RETURN(create.change.spec, read_new_function(object, caller.tenant));
  ASSIGN_OR_RETURN(create.change.publish, read_bool(object, "Publish"));
  if (runs_image(create.change.spec)) return create;
  const auto code = object.find("Code");
  if (code == object.end() || !code->is_object()) return invalid("Code is missing");
  ASSIGN_OR_RETURN(create.change.zip_base64, read_zip(*code, body));
  return create;
}

Result<UpdateFunctionCode> decode_update_code(JsonBody body, FunctionName name) {
  const json& object = body.object;
  UpdateFunctionCode update{
      .name = std::move(name), .zip_base64 = "", .image = {}, .revision_id = ""};
  ASSIGN_OR_RETURN(update.revision_id, read_string(object, "RevisionId"));
  ASSIGN_OR_RETURN(update.dry_run, read_bool(object, "DryRun"));
  ASSIGN_OR_RETURN(update.publish, read_bool(object, "Publish"));
  // Refused as in a configuration.
  RETURN_IF_ERROR(read_patch({{"PublishTo", object.value("PublishTo", json())},
                              {"Architectures", object.value("Architectures", json())}}));
  if (object.contains("ImageUri") && !object.at("ImageUri").is_null()) {
    ASSIGN_OR_RETURN(update.image, read_image_uri(object));
    return update;
  }
  ASSIGN_OR_RETURN(update.zip_base64, read_zip(object, body));
  return update;
}

Result<PublishVersion> decode_publish(const json& object, FunctionName name) {
  PublishVersion publish{.publication = {.function = std::move(name)}, .revision_id = ""};
  ASSIGN_OR_RETURN(publish.publication.code_sha256, read_string(object, "CodeSha256"));
  ASSIGN_OR_RETURN(publish.revision_id, read_string(object, "RevisionId"));
  if (object.contains("Description") && !object.at("Description").is_null()) {
    ASSIGN_OR_RETURN(publish.publication.description, read_string(object, "Description"));
    if (publish.publication.description->size() > limits::kDescriptionLength) {
      return invalid("Description has at most 256 bytes");
    }
  }
  RETURN_IF_ERROR(read_patch({{"PublishTo", object.value("PublishTo", json())}}));
  return publish;
}

// {"AdditionalVersionWeights": {"2": 0.05}}, or nothing of it.
Result<std::pair<std::string, double>> read_routing(const json& routing) {
  std::pair<std::string, double> second;
  if (!routing.is_object()) return invalid("RoutingConfig must be an object");
  const auto weights = routing.find("AdditionalVersionWeights");
  if (weights == routing.end() || weights->is_null()) return second;
  if (!weights->is_object() || weights->size() > 1) {
    return invalid("AdditionalVersionWeights must have one version at most");
  }
  for (const auto& [version, weight] : weights->items()) {
    if (!weight.is_number()) return invalid("the weight of version " + version + " is no number");
    second = {version, weight.get<double>()};
    if (second.second == 0) second.first.clear();
  }
  return second;
}

Result<UpdateAlias> decode_alias(const json& object, FunctionName function, std::string name) {
  UpdateAlias alias{.function = std::move(function),
                    .name = std::move(name),
                    .description = {},
                    .version = {},
                    .second = {},
                    .revision_id = ""};
  const auto given = [&object](const char* key) {
    return object.contains(key) && !object.at(key).is_null();
  };
  if (given("FunctionVersion")) {
    ASSIGN_OR_RETURN(alias.version, read_string(object, "FunctionVersion"));
  }
  if (given("Description")) {
    ASSIGN_OR_RETURN(alias.description, read_string(object, "Description"));
  }
  if (given("RoutingConfig")) {
    ASSIGN_OR_RETURN(alias.second, read_routing(object.at("RoutingConfig")));
  }
  ASSIGN_OR_RETURN(alias.revision_id, read_string(object, "RevisionId"));
  return alias;
}

Result<CreateAlias> decode_create_alias(const json& object, FunctionName function) {
  ASSIGN_OR_RETURN(std::string name, read_string(object, "Name"));
  ASSIGN_OR_RETURN(UpdateAlias read, decode_alias(object, std::move(function), std::move(name)));
  if (!read.version) return invalid("FunctionVersion is missing");
  const auto second = read.second.value_or(std::pair<std::string, double>());
  return CreateAlias{{.function = std::move(read.function),
                      .name = std::move(read.name),
                      .description = read.description.value_or(""),
                      .version = *read.version,
                      .second = second.first,
                      .second_share = second.second}};
}

Result<PutConcurrency> decode_concurrency(const json& object, FunctionName name) {
  const auto found = object.find("ReservedConcurrentExecutions");
  if (found == object.end() || !found->is_number_unsigned() ||
      found->get<uint64_t>() > limits::kMostConcurrency) {
    return invalid("ReservedConcurrentExecutions must be 1 to " +
                   std::to_string(limits::kMostConcurrency));
  }
  const auto most = found->get<unsigned>();
  if (most == 0) {
    return invalid(
        "ReservedConcurrentExecutions of 0 is not supported: a function that is to take "
        "no invocations is deleted, or its alias is");
  }
  return PutConcurrency{std::move(name), most};
}

Result<UpdateFunctionConfiguration> decode_update_configuration(const json& object,
                                                                FunctionName name) {
  UpdateFunctionConfiguration update{.name = std::move(name), .patch = {}, .revision_id = ""};
  ASSIGN_OR_RETURN(update.revision_id, read_string(object, "RevisionId"));
  ASSIGN_OR_RETURN(update.patch, read_patch(object));
  return update;
}

Result<TagFunction> decode_tag(const json& object, FunctionName name) {
  TagFunction tag{.name = std::move(name), .tags = {}};
  ASSIGN_OR_RETURN(tag.tags, read_strings(object, "Tags"));
  if (tag.tags.empty()) return invalid("Tags are missing");
  return tag;
}

// Every value of tagKeys in the query.
Result<UntagFunction> decode_untag(std::string_view query, FunctionName name) {
  UntagFunction untag{.name = std::move(name), .keys = {}};
  while (!query.empty() && untag.keys.size() <= limits::kTags) {
    const size_t end = std::min(query.find('&'), query.size());
    std::string key = http::query_value(query.substr(0, end), "tagKeys");
    if (!key.empty()) untag.keys.push_back(std::move(key));
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  if (untag.keys.empty()) return invalid("tagKeys are missing");
  return untag;
}

Result<size_t> read_page_size(std::string_view query) {
  const std::string limit = http::query_value(query, "MaxItems");
  if (limit.empty()) return limits::kFunctionsPerPage;
  const auto number = parse_number<size_t>(limit);
  if (!number || *number == 0 || *number > 10'000) return invalid("MaxItems must be 1 to 10000");
  return std::min(*number, limits::kFunctionsPerPage);
}

Result<ListFunctions> decode_list(std::string_view query, const Caller& caller) {
  ListFunctions list{.tenant = caller.tenant, .after = http::query_value(query, "Marker")};
  ASSIGN_OR_RETURN(list.limit, read_page_size(query));
  return list;
}

Result<std::string> read_client_context(const http::Headers& headers) {
  const std::string_view text = headers.get("X-Amz-Client-Context");
  if (text.empty()) return std::string();
  if (text.size() > limits::kClientContextLength) {
    return invalid("X-Amz-Client-Context has at most 3583 bytes");
  }
  auto context = base64_decode(text);
  if (!context.has_value()) return invalid("X-Amz-Client-Context is no valid base64");
  const auto parsed = parse_json(*context);
  if (!parsed.ok() || !parsed->is_object()) {
    return invalid("X-Amz-Client-Context is not the base64 of a JSON object");
  }
  return std::move(*context);
}

// What an invocation needs: in X-Lambent-Needs or, for clients that cannot add headers, as
// "lambent-needs" in the "custom" part of the client context.
Result<std::vector<ObjectId>> read_needs(const http::Headers& headers,
                                         const std::string& client_context) {
  const std::string_view text = headers.get("X-Lambent-Needs");
  const auto read = [](std::string_view list,
                       std::string_view where) -> Result<std::vector<ObjectId>> {
    auto objects = parse_object_list(list);
    if (!objects.ok()) return objects.error().with_context(where);
    return objects;
  };
  if (!text.empty() || client_context.empty()) return read(text, "X-Lambent-Needs");
  ASSIGN_OR_RETURN(const json context, parse_json(client_context));
  const auto custom = context.find("custom");
  if (custom == context.end() || !custom->is_object()) return std::vector<ObjectId>();
  const auto needs = custom->find("lambent-needs");
  if (needs == custom->end()) return std::vector<ObjectId>();
  if (!needs->is_string()) return invalid("lambent-needs in X-Amz-Client-Context is no text");
  return read(needs->get<std::string>(), "lambent-needs in X-Amz-Client-Context");
}

Result<Invoke::Type> read_invocation_type(const http::Headers& headers) {
  const std::string_view text = headers.get("X-Amz-Invocation-Type");
  if (text.empty() || text == "RequestResponse") return Invoke::Type::kRequestResponse;
  if (text == "Event") return Invoke::Type::kEvent;
  if (text == "DryRun") return Invoke::Type::kDryRun;
  return invalid("X-Amz-Invocation-Type must be RequestResponse, Event or DryRun");
}

// Repeats by the SDK carry its invocation id; what is too long to be one is none. Other clients
// that wait for their answer are known by their connection.
std::string read_idempotency_key(const http::Request& request, bool asynchronous) {
  const std::string_view key = request.headers.get("amz-sdk-invocation-id");
  if (!key.empty() && key.size() <= limits::kIdempotencyKeyLength) return std::string(key);
  return asynchronous ? std::string() : connection_key(request.peer.address);
}

Result<Invoke> decode_invoke(http::Request request, FunctionName name, bool streams) {
  Invoke invoke;
  invoke.streams = streams;
  const http::Headers& headers = request.headers;
  ASSIGN_OR_RETURN(invoke.type, read_invocation_type(headers));
  if (streams && invoke.type == Invoke::Type::kEvent) {
    return invalid("X-Amz-Invocation-Type must be RequestResponse or DryRun for a streamed answer");
  }
  const std::string_view log = headers.get("X-Amz-Log-Type");
  if (!log.empty() && log != "None" && log != "Tail") {
    return invalid("X-Amz-Log-Type must be None or Tail");
  }
  for (const char* name : {"X-Amz-Tenant-Id", "X-Amz-Durable-Execution-Name"}) {
    if (!headers.get(name).empty()) return invalid(std::string(name) + " is not supported");
  }
  invoke.log_tail = log == "Tail";
  const bool asynchronous = invoke.type == Invoke::Type::kEvent;
  const Bytes limit = asynchronous ? limits::kAsyncPayload : limits::kSyncPayload;
  if (Bytes(request.body.size()) > limit) {
    return Error{ErrorCode::kOutOfRange,
                 "Request must be smaller than " + std::to_string(limit.count) +
                     " bytes for the Invoke operation; what is larger "
                     "goes by reference, as an object (docs/guides/objects.md)"};
  }
  ASSIGN_OR_RETURN(invoke.request.client_context, read_client_context(headers));
  ASSIGN_OR_RETURN(invoke.request.needs, read_needs(headers, invoke.request.client_context));
  const auto time_to_live = read_time_to_live(request);
  if (!time_to_live.ok()) return time_to_live.error().with_context("X-Lambent-Ttl");
  invoke.request.time_to_live = *time_to_live;
  if (asynchronous && invoke.request.time_to_live) {
    return invalid("X-Lambent-Ttl is not for events: what they make lives as long as is usual");
  }
  invoke.request.function = std::move(name);
  invoke.request.kind = asynchronous ? InvocationKind::kAsynchronous : InvocationKind::kSynchronous;
  invoke.request.content_type = payload_type_of(headers);
  invoke.request.trace_id = http::trace_id_of(headers);
  // What was streamed is not kept for a repeat.
  if (!streams) invoke.request.idempotency_key = read_idempotency_key(request, asynchronous);
  // Handlers read JSON unless told otherwise, and nothing is no JSON.
  const bool is_nothing = request.body.empty() && is_json(invoke.request.content_type);
  invoke.request.payload = is_nothing ? std::string("{}") : std::move(request.body);
  return invoke;
}

// As the client reaches this worker, by what it says itself.
std::string origin_of(const http::Request& request) {
  const std::string_view host = request.headers.get("Host");
  const bool encrypted = request.peer.transport == http::Transport::kTls;
  return (encrypted ? "https://" : "http://") + std::string(host.empty() ? "localhost" : host);
}

// As the function keeps it; empty if nothing is in it.
Result<std::string> read_cors(const json& object) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"AllowOrigins", "allow_origins"},         {"AllowMethods", "allow_methods"},
      {"AllowHeaders", "allow_headers"},         {"ExposeHeaders", "expose_headers"},
      {"AllowCredentials", "allow_credentials"}, {"MaxAge", "max_age_s"}};
  if (!object.is_object()) return invalid("Cors must be a structure");
  json ours = json::object();
  for (const auto& [name, value] : object.items()) {
    const auto* known =
        std::ranges::find(kNames, name, [](const auto& pair) { return std::string(pair.first); });
    if (known == std::end(kNames)) return invalid("Cors has no " + name);
    if (!value.is_null()) ours[known->second] = value;
  }
  if (ours.empty()) return std::string();
  ASSIGN_OR_RETURN(const Cors cors, parse_cors(json_text(ours)));
  return text_of(cors);
}

Result<PutUrlConfig> decode_url_config(const json& object, FunctionName name, bool creates,
                                       std::string origin) {
  PutUrlConfig put{.name = std::move(name),
                   .creates = creates,
                   .auth = {},
                   .invoke_mode = {},
                   .cors = {},
                   .origin = std::move(origin)};
  ASSIGN_OR_RETURN(const std::string auth, read_string(object, "AuthType"));
  if (auth == "NONE") {
    put.auth = UrlAuth::kNone;
  } else if (auth == "AWS_IAM") {
    put.auth = UrlAuth::kToken;
  } else if (!auth.empty() || creates) {
    return invalid("AuthType must be NONE or AWS_IAM");
  }
  ASSIGN_OR_RETURN(const std::string mode, read_string(object, "InvokeMode"));
  if (mode == "RESPONSE_STREAM") {
    put.invoke_mode = InvokeMode::kStream;
  } else if (mode == "BUFFERED" || (mode.empty() && creates)) {
    put.invoke_mode = InvokeMode::kBuffered;
  } else if (!mode.empty()) {
    return invalid("InvokeMode must be BUFFERED or RESPONSE_STREAM");
  }
  const auto cors = object.find("Cors");
  if (cors != object.end() && !cors->is_null()) {
    ASSIGN_OR_RETURN(put.cors, read_cors(*cors));
  }
  return put;
}

// Nothing if it is another call.
std::optional<EventInvokeCall::What> event_invoke_call(LambdaOperation operation) {
  switch (operation) {
    case LambdaOperation::kPutEventInvokeConfig:
      return EventInvokeCall::What::kPut;
    case LambdaOperation::kUpdateEventInvokeConfig:
      return EventInvokeCall::What::kUpdate;
    case LambdaOperation::kGetEventInvokeConfig:
      return EventInvokeCall::What::kGet;
    case LambdaOperation::kDeleteEventInvokeConfig:
      return EventInvokeCall::What::kDelete;
    case LambdaOperation::kListEventInvokeConfigs:
      return EventInvokeCall::What::kList;
    default:
      return std::nullopt;
  }
}

Result<EventInvokeCall> decode_event_invoke(EventInvokeCall::What what, const json& object,
                                            FunctionName name) {
  EventInvokeCall call{.what = what, .name = std::move(name)};
  using enum EventInvokeCall::What;
  if (what == kPut || what == kUpdate) RETURN_IF_ERROR(read_event_invoke_config(object, call));
  return call;
}

// What has no version: it is the function that is changed.
Result<void> refuse_qualifier(LambdaOperation operation, const FunctionName& name) {
  switch (operation) {
    case LambdaOperation::kGetFunction:
    case LambdaOperation::kGetFunctionConfiguration:
    case LambdaOperation::kDeleteFunction:
    case LambdaOperation::kInvoke:
    case LambdaOperation::kInvokeWithStream:
    case LambdaOperation::kPutProvisioned:
    case LambdaOperation::kGetProvisioned:
    case LambdaOperation::kDeleteProvisioned:
    case LambdaOperation::kGetNone:
      return {};
    default:
      break;
  }
  if (!is_version_record(name)) return {};
  if (event_invoke_call(operation)) {
    return invalid(
        "what follows asynchronous invocations is configured for the function, and holds for its "
        "versions and aliases too: leave Qualifier out, or give $LATEST");
  }
  return invalid("this is for a function, not for '" + version_of(name) +
                 "' of one: versions never change, and aliases have calls of their own");
}

Result<ProvisionedCall> decode_provisioned(const LambdaRoute& route, const std::string& query,
                                           const json& object, FunctionName name) {
  using enum ProvisionedCall::What;
  ProvisionedCall call{.what = kGet, .name = std::move(name)};
  if (route.operation == LambdaOperation::kDeleteProvisioned) call.what = kDelete;
  if (route.operation == LambdaOperation::kPutProvisioned) call.what = kPut;
  if (call.what == kGet && http::query_value(query, "List") == "ALL") {
    call.what = kList;
    call.name = function_of(call.name);
    return call;
  }
  if (version_of(call.name) == kLatestVersion) {
    return invalid(
        "Qualifier must be a version or an alias; what is kept ready of the function "
        "itself is its min_instances (lambent:min-instances)");
  }
  if (call.what != kPut) return call;
  const auto found = object.find("ProvisionedConcurrentExecutions");
  if (found == object.end() || !found->is_number_unsigned() || found->get<uint64_t>() == 0 ||
      found->get<uint64_t>() > limits::kMostInstances) {
    return invalid("ProvisionedConcurrentExecutions must be 1 to " +
                   std::to_string(limits::kMostInstances));
  }
  call.instances = found->get<unsigned>();
  return call;
}

LambdaCall decode_list_versions(const std::string& query, FunctionName name) {
  const auto limit = read_page_size(query);
  if (!limit.ok()) return fault_of(limit.error());
  return ListVersions{std::move(name), http::query_value(query, "Marker"), *limit};
}

// Calls on one function without a body; the other ones get their turn.
std::optional<LambdaCall> decode_without_body(const LambdaRoute& route, const std::string& query,
                                              FunctionName& name) {
  switch (route.operation) {
    case LambdaOperation::kGetFunction:
      return GetFunction{std::move(name)};
    case LambdaOperation::kDeleteFunction:
      return DeleteFunction{std::move(name)};
    case LambdaOperation::kListTags:
      return ListTags{std::move(name)};
    case LambdaOperation::kGetFunctionConfiguration:
      return GetFunctionConfiguration{std::move(name)};
    case LambdaOperation::kUntagFunction:
      return call_or_fault(decode_untag(query, std::move(name)));
    case LambdaOperation::kListVersions:
      return decode_list_versions(query, std::move(name));
    case LambdaOperation::kListAliases:
      return ListAliases{std::move(name), http::query_value(query, "FunctionVersion")};
    case LambdaOperation::kGetAlias:
      return GetAlias{std::move(name), route.alias};
    case LambdaOperation::kDeleteAlias:
      return DeleteAlias{std::move(name), route.alias};
    case LambdaOperation::kGetConcurrency:
      return GetConcurrency{std::move(name)};
    case LambdaOperation::kDeleteConcurrency:
      return DeleteConcurrency{std::move(name)};
    case LambdaOperation::kDeleteUrlConfig:
      return DeleteUrlConfig{std::move(name)};
    case LambdaOperation::kGetNone:
      return GetNone{std::move(name), route.feature};
    case LambdaOperation::kGetProvisioned:
    case LambdaOperation::kDeleteProvisioned:
      return call_or_fault(decode_provisioned(route, query, {}, std::move(name)));
    default:
      return std::nullopt;
  }
}

// Calls on one function whose bodies, if any, are JSON.
LambdaCall decode_on_function(const LambdaRoute& route, http::Request request, FunctionName name) {
  const std::string query(http::query_of(request.target));
  if (auto call = decode_without_body(route, query, name)) return *std::move(call);
  std::string origin = origin_of(request);
  const bool lists = route.operation == LambdaOperation::kListUrlConfigs;
  if (lists || route.operation == LambdaOperation::kGetUrlConfig) {
    return GetUrlConfig{std::move(name), lists, std::move(origin)};
  }
  auto body = read_body(std::move(request.body));
  if (!body.ok()) {
    return LambdaFault{
        .status = 400,
        .type = "InvalidRequestContentException",
        .message = "Could not parse request body into json: " + body.error().message};
  }
  if (const auto what = event_invoke_call(route.operation)) {
    return call_or_fault(decode_event_invoke(*what, body->object, std::move(name)));
  }
  switch (route.operation) {
    case LambdaOperation::kUpdateFunctionCode:
      return call_or_fault(decode_update_code(std::move(*body), std::move(name)));
    case LambdaOperation::kUpdateFunctionConfiguration:
      return call_or_fault(decode_update_configuration(body->object, std::move(name)));
    case LambdaOperation::kPublishVersion:
      return call_or_fault(decode_publish(body->object, std::move(name)));
    case LambdaOperation::kCreateAlias:
      return call_or_fault(decode_create_alias(body->object, std::move(name)));
    case LambdaOperation::kUpdateAlias:
      return call_or_fault(decode_alias(body->object, std::move(name), route.alias));
    case LambdaOperation::kCreateUrlConfig:
    case LambdaOperation::kUpdateUrlConfig:
      return call_or_fault(decode_url_config(body->object, std::move(name),
                                             route.operation == LambdaOperation::kCreateUrlConfig,
                                             std::move(origin)));
    case LambdaOperation::kPutProvisioned:
      return call_or_fault(decode_provisioned(route, query, body->object, std::move(name)));
    case LambdaOperation::kPutConcurrency:
      return call_or_fault(decode_concurrency(body->object, std::move(name)));
    default:
      break;
  }
  CHECK(route.operation == LambdaOperation::kTagFunction, "every other one is handled above");
  return call_or_fault(decode_tag(body->object, std::move(name)));
}

LambdaCall decode_create_request(http::Request request, const Caller& caller) {
  auto body = read_body(std::move(request.body));
  if (!body.ok()) {
    return LambdaFault{
        .status = 400,
        .type = "InvalidRequestContentException",
        .message = "Could not parse request body into json: " + body.error().message};
  }
  return call_or_fault(decode_create(std::move(*body), caller));
}

}  // namespace

LambdaCall decode_lambda_call(http::Request request, const Caller& caller) {
  const LambdaRoute route = route_lambda(request.method, http::path_of(request.target));
  const std::string query(http::query_of(request.target));
  switch (route.operation) {
    case LambdaOperation::kUnknown:
      return LambdaFault{.status = 404,
                         .type = "UnknownOperationException",
                         .message = "there is no such operation in Lambda's API"};
    case LambdaOperation::kMethodNotAllowed:
      return LambdaFault{.status = 405,
                         .type = "MethodNotAllowedException",
                         .message = request.method + " is not allowed here; use " + route.allow,
                         .reason = "",
                         .allow = route.allow};
    case LambdaOperation::kUnsupported:
      return fault_of(Error{ErrorCode::kUnimplemented, refusal_of_feature(route.feature)});
    case LambdaOperation::kGetAccountSettings:
      return GetAccountSettings{caller.tenant};
    case LambdaOperation::kListFunctions:
      return call_or_fault(decode_list(query, caller));
    case LambdaOperation::kCreateFunction:
      return decode_create_request(std::move(request), caller);
    default:
      break;
  }
  const bool is_collection = route.function.empty();
  if (is_collection && route.operation == LambdaOperation::kGetNone) {
    return GetNone{{caller.tenant, ""}, route.feature};
  }
  auto name = qualified_lambda_name(route.function, http::query_value(query, "Qualifier"));
  if (!name.ok()) return fault_of(name.error());
  FunctionName function{caller.tenant, std::move(*name)};
  const auto allowed = refuse_qualifier(route.operation, function);
  if (!allowed.ok()) return fault_of(allowed.error());
  const bool streams = route.operation == LambdaOperation::kInvokeWithStream;
  if (route.operation == LambdaOperation::kInvoke || streams) {
    return call_or_fault(decode_invoke(std::move(request), std::move(function), streams));
  }
  return decode_on_function(route, std::move(request), std::move(function));
}

}  // namespace lambent::frontend
