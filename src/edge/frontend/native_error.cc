#include "edge/frontend/native_error.h"

#include <nlohmann/json.hpp>

#include "core/base/json_text.h"
#include "core/http/forward_words.h"
#include "edge/frontend/json_text.h"
#include "edge/frontend/outcome_headers.h"

namespace lambent::frontend {
namespace {

using nlohmann::json;

json error_json(const Error& error) {
  return {{"code", name_of(error.code)}, {"message", error.message}};
}

ErrorCode code_of(int status) {
  switch (status) {
    case 408:
      return ErrorCode::kDeadlineExceeded;
    case 413:
    case 431:
      return ErrorCode::kOutOfRange;
    case 500:
      return ErrorCode::kInternal;
    case 501:
      return ErrorCode::kUnimplemented;
    case 503:
      return ErrorCode::kUnavailable;
    default:
      return ErrorCode::kInvalidArgument;
  }
}

const char* lambda_type_of(int status) {
  if (status == 413) return "RequestTooLargeException";
  return status >= 500 ? "ServiceException" : "InvalidRequestContentException";
}

}  // namespace

std::string error_body(const Error& error) { return json_text(json{{"error", error_json(error)}}); }

http::Response error_response(const Error& error, Duration retry_after) {
  http::Response response;
  response.status = http_status_of(error.code);
  response.headers.add("Content-Type", "application/json");
  http::tell_not_begun(response.headers, error.code, error.message);
  if (response.status == 429) add_retry_after(response.headers, retry_after);
  response.body = error_body(error);
  return response;
}

http::Response server_error(int status, std::string_view reason) {
  http::Response response;
  response.status = status;
  response.headers.add("Content-Type", "application/json");
  response.headers.add("x-amzn-ErrorType", lambda_type_of(status));
  if (status == 503) add_retry_after(response.headers, {});
  response.body =
      json_text(json{{"Type", status < 500 ? "User" : "Service"},
                     {"Message", reason},
                     {"error", error_json(Error{code_of(status), std::string(reason)})}});
  return response;
}

}  // namespace lambent::frontend
