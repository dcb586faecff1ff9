// Which operation of Lambda's API a method and a path mean. Pure; used by decode_lambda_call.
#pragma once

#include <string>
#include <string_view>

namespace lambent::frontend {

enum class LambdaOperation {
  kCreateFunction,
  kListFunctions,
  kGetFunction,
  kDeleteFunction,
  kGetFunctionConfiguration,
  kUpdateFunctionConfiguration,
  kUpdateFunctionCode,
  kInvoke,
  kListTags,
  kTagFunction,
  kUntagFunction,
  kGetAccountSettings,
  kPublishVersion,
  kListVersions,
  kCreateAlias,
  kListAliases,
  kGetAlias,
  kUpdateAlias,
  kDeleteAlias,
  kPutConcurrency,
  kGetConcurrency,
  kDeleteConcurrency,
  kPutProvisioned,
  kGetProvisioned,
  kDeleteProvisioned,
  kInvokeWithStream,
  kCreateUrlConfig,
  kUpdateUrlConfig,
  kGetUrlConfig,
  kDeleteUrlConfig,
  kListUrlConfigs,
  kGetNone,  // a read of what no function has here: `feature` names it
  kPutEventInvokeConfig,
  kUpdateEventInvokeConfig,
  kGetEventInvokeConfig,
  kDeleteEventInvokeConfig,
  kListEventInvokeConfigs,
  kUnsupported,       // one that AWS has and we do not: `feature` names it
  kMethodNotAllowed,  // `allow` names those that are
  kUnknown,
};

struct LambdaRoute {
  LambdaOperation operation = LambdaOperation::kUnknown;
  std::string function;  // the name or ARN in the path, percent-decoded
  std::string alias;     // the name in the path, percent-decoded
  std::string feature;
  std::string allow;
};

// Whether a path is one of Lambda's API: it begins with a date.
bool is_lambda_path(std::string_view path);
// Whether it is one of those that are about layers (layer_frontend.h).
bool is_layer_path(std::string_view path);
LambdaRoute route_lambda(std::string_view method, std::string_view path);

}  // namespace lambent::frontend
