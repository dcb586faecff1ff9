// The calls of AWS Lambda's REST API that we know, decoded from HTTP. Values; decode_lambda_call is
// a pure function and the only reader of such requests.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "core/domain/invocation_service.h"
#include "core/http/message.h"
#include "edge/frontend/caller.h"
#include "edge/frontend/function_json.h"
#include "edge/frontend/lambda_fault.h"

namespace lambent::frontend {

struct CreateFunction {
  FunctionChange change;
};
struct UpdateFunctionCode {
  FunctionName name;
  std::string zip_base64;
  std::string revision_id;  // empty: whatever it is now
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
struct GetAccountSettings {
  TenantId tenant;
};

// A request that is no good call is the fault that answers it.
using LambdaCall =
    std::variant<LambdaFault, CreateFunction, UpdateFunctionCode, UpdateFunctionConfiguration,
                 GetFunction, GetFunctionConfiguration, DeleteFunction, ListFunctions, Invoke,
                 ListTags, TagFunction, UntagFunction, GetAccountSettings>;

// Takes the body out of the request where the call carries it.
LambdaCall decode_lambda_call(http::Request request, const Caller& caller);

}  // namespace lambent::frontend
