// The calls of AWS Lambda's REST API that we know, decoded from HTTP. Values; decode_lambda_call is
// a pure function and the only reader of such requests.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/domain/invocation_service.h"
#include "core/domain/version_service.h"
#include "core/http/message.h"
#include "edge/frontend/caller.h"
#include "edge/frontend/event_invoke_config.h"
#include "edge/frontend/function_json.h"
#include "edge/frontend/lambda_fault.h"
#include "edge/frontend/limits.h"

namespace lambent::frontend {

struct CreateFunction {
  FunctionChange change;
};
struct UpdateFunctionCode {
  FunctionName name;
  std::string zip_base64;
  std::optional<ImageReference> image = {};  // of a function of an image, which has no zip
  std::string revision_id;                   // empty: whatever it is now
  bool dry_run = false;
  bool publish = false;
};
struct UpdateFunctionConfiguration {
  FunctionName name;
  ConfigurationPatch patch;
  std::string revision_id;
};
struct GetFunction {
  FunctionName name;
};
struct GetFunctionConfiguration {
  FunctionName name;
};
struct DeleteFunction {
  FunctionName name;
};
struct ListFunctions {
  TenantId tenant;
  std::string after;
  size_t limit = limits::kFunctionsPerPage;
};
struct Invoke {
  enum class Type { kRequestResponse, kEvent, kDryRun } type = Type::kRequestResponse;
  bool log_tail = false;
  bool streams = false;       // the answer comes in pieces
  InvocationRequest request;  // without an id
};
struct ListTags {
  FunctionName name;
};
struct TagFunction {
  FunctionName name;
  std::map<std::string, std::string> tags;
};
struct UntagFunction {
  FunctionName name;
  std::vector<std::string> keys;
};
struct PublishVersion {
  Publication publication;
  std::string revision_id;  // empty: whatever it is now
};
struct ListVersions {
  FunctionName name;
  std::string after;  // a version; empty: from $LATEST on
  size_t limit = limits::kFunctionsPerPage;
};
struct CreateAlias {
  Alias alias;
};
// Fields that are not given stay.
struct UpdateAlias {
  FunctionName function;
  std::string name;
  std::optional<std::string> description;
  std::optional<std::string> version;
  // The second version and its share; empty: none.
  std::optional<std::pair<std::string, double>> second;
  std::string revision_id;  // empty: whatever it is now
};
struct GetAlias {
  FunctionName function;
  std::string name;
};
struct DeleteAlias {
  FunctionName function;
  std::string name;
};
struct ListAliases {
  FunctionName function;
  std::string version;  // only those that have it; empty: all
};
struct PutConcurrency {
  FunctionName name;
  unsigned most = 0;
};
struct GetConcurrency {
  FunctionName name;
};
struct DeleteConcurrency {
  FunctionName name;
};
// Instances that are ready for a version or an alias.
struct ProvisionedCall {
  enum class What { kPut, kGet, kList, kDelete } what = What::kGet;
  FunctionName name;       // qualified; of a list, the function
  unsigned instances = 0;  // to put
};
// Of a function's URL; fields that are not given stay.
struct PutUrlConfig {
  FunctionName name;
  bool creates = false;  // else there must be one
  std::optional<UrlAuth> auth;
  std::optional<InvokeMode> invoke_mode;
  std::optional<std::string> cors;  // as FunctionUrl has it
  std::string origin;               // "http://127.0.0.1:8980": how the client reaches this worker
};
struct GetUrlConfig {
  FunctionName name;
  bool lists = false;  // as a list of at most one
  std::string origin;
};
struct DeleteUrlConfig {
  FunctionName name;
};
// What no function has here (lambda_absent.h).
struct GetNone {
  FunctionName name;  // without a name: of a collection
  std::string feature;
};
struct GetAccountSettings {
  TenantId tenant;
};

// A request that is no good call is the fault that answers it.
using LambdaCall =
    std::variant<LambdaFault, CreateFunction, UpdateFunctionCode, UpdateFunctionConfiguration,
                 GetFunction, GetFunctionConfiguration, DeleteFunction, ListFunctions, Invoke,
                 ListTags, TagFunction, UntagFunction, GetAccountSettings, PublishVersion,
                 ListVersions, CreateAlias, UpdateAlias, GetAlias, DeleteAlias, ListAliases,
                 PutConcurrency, GetConcurrency, DeleteConcurrency, ProvisionedCall, PutUrlConfig,
                 GetUrlConfig, DeleteUrlConfig, GetNone, EventInvokeCall>;

// Takes the body out of the request where the call carries it.
LambdaCall decode_lambda_call(http::Request request, const Caller& caller);

}  // namespace lambent::frontend
