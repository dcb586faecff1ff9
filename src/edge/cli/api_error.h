// Turns the answers of the worker's two APIs that are errors into our Error. Pure; used by every
// verb.
#pragma once

#include "core/base/error.h"
#include "core/base/result.h"
#include "core/http/message.h"

namespace lambent::cli {

// The error that a response with a status of 300 or more carries: {"error":{"code","message"}} of
// /v1, or x-amzn-ErrorType with {"Message"} of the Lambda API; else one made from the status.
Error error_of(const http::Response& response);

// A good response, or the error that it carries, or the one of a failed exchange.
Result<http::Response> good(Result<http::Response> response);

}  // namespace lambent::cli
