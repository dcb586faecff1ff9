// LambdaFault: an error as AWS clients know it, with its HTTP status and exception type. A value of
// the Lambda frontend.
#pragma once

#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/base/time.h"
#include "core/http/message.h"

namespace lambent::frontend {

struct LambdaFault {
  int status = 500;
  std::string type;  // "ResourceNotFoundException"
  std::string message;
  std::string reason;  // of TooManyRequestsException only
  std::string allow;   // of 405 only
  // Our own code of it, which says more: several share an exception.
  std::optional<ErrorCode> code;
  // Of 429 only: when trying again is worth it, rounded up to seconds; at least one.
  Duration retry_after{};
};

// The exception that stands for an error of ours.
LambdaFault fault_of(const Error& error);
// {"Type","Message"} with the header x-amzn-ErrorType, by which SDKs raise the typed exception, and
// x-lambent-code.
http::Response response_of(const LambdaFault& fault);
http::Response fault_response(const Error& error);

}  // namespace lambent::frontend
