#include "edge/frontend/lambda_fault.h"

#include <nlohmann/json.hpp>

#include "core/base/json_text.h"
#include "core/http/forward_words.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/outcome_headers.h"

namespace lambent::frontend {
namespace {

LambdaFault fault(int status, const char* type, const Error& error) {
  LambdaFault made{.status = status, .type = type, .message = error.message};
  made.code = error.code;
  return made;
}

}  // namespace

LambdaFault fault_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return fault(400, "InvalidParameterValueException", error);
    case ErrorCode::kNotFound:
      return fault(404, "ResourceNotFoundException", error);
    case ErrorCode::kAlreadyExists:
    case ErrorCode::kFailedPrecondition:
    case ErrorCode::kAborted:
      return fault(409, "ResourceConflictException", error);
    case ErrorCode::kOutOfRange:
      return fault(413, "RequestTooLargeException", error);
    case ErrorCode::kResourceExhausted: {
      LambdaFault busy = fault(429, "TooManyRequestsException", error);
      busy.reason = "ConcurrentInvocationLimitExceeded";
      return busy;
    }
    case ErrorCode::kUnimplemented:
      return fault(501, "NotImplementedException", error);
    case ErrorCode::kPermissionDenied:
    case ErrorCode::kUnauthenticated:
      return fault(403, "AccessDeniedException", error);
    // Not a 429: it does not pass with the load. SDKs try a 503 again, and report it.
    case ErrorCode::kStorageFull:
    case ErrorCode::kUnavailable:
      return fault(503, "ServiceException", error);
    case ErrorCode::kDeadlineExceeded:
      return fault(504, "ServiceException", error);
    default:
      return fault(500, "ServiceException", error);
  }
}

http::Response response_of(const LambdaFault& fault) {
  nlohmann::json body = {{"Type", fault.status < 500 ? "User" : "Service"},
                         {"Message", fault.message}};
  if (!fault.reason.empty()) body["Reason"] = fault.reason;
  http::Response response;
  response.status = fault.status;
  response.headers.add("Content-Type", "application/json");
  response.headers.add("x-amzn-ErrorType", fault.type);
  if (fault.code) response.headers.add("x-lambent-code", std::string(name_of(*fault.code)));
  if (fault.code) http::tell_not_begun(response.headers, *fault.code, fault.message);
  if (fault.status == 429) add_retry_after(response.headers, fault.retry_after);
  if (!fault.allow.empty()) response.headers.add("Allow", fault.allow);
  response.body = json_text(body);
  return response;
}

http::Response fault_response(const Error& error) { return response_of(fault_of(error)); }

}  // namespace lambent::frontend
