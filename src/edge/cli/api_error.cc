#include "edge/cli/api_error.h"

#include <nlohmann/json.hpp>
#include <optional>

namespace lambent::cli {
namespace {

using Json = nlohmann::json;

struct LambdaError {
  std::string_view type;
  ErrorCode code;
};

constexpr LambdaError kLambdaErrors[] = {
    {"ResourceNotFoundException", ErrorCode::kNotFound},
    {"ResourceConflictException", ErrorCode::kAlreadyExists},
    {"InvalidParameterValueException", ErrorCode::kInvalidArgument},
    {"InvalidRequestContentException", ErrorCode::kInvalidArgument},
    {"InvalidZipFileException", ErrorCode::kInvalidArgument},
    {"InvalidRuntimeException", ErrorCode::kInvalidArgument},
    {"UnsupportedMediaTypeException", ErrorCode::kInvalidArgument},
    {"RequestTooLargeException", ErrorCode::kOutOfRange},
    {"CodeStorageExceededException", ErrorCode::kResourceExhausted},
    {"TooManyRequestsException", ErrorCode::kResourceExhausted},
    {"ResourceNotReadyException", ErrorCode::kUnavailable},
    {"ServiceException", ErrorCode::kInternal},
};

ErrorCode code_from_status(int status) {
  switch (status) {
    case 400:
      return ErrorCode::kInvalidArgument;
    case 401:
      return ErrorCode::kUnauthenticated;
    case 403:
      return ErrorCode::kPermissionDenied;
    case 404:
      return ErrorCode::kNotFound;
    case 409:
      return ErrorCode::kAlreadyExists;
    case 412:
      return ErrorCode::kFailedPrecondition;
    case 413:
      return ErrorCode::kOutOfRange;
    case 429:
      return ErrorCode::kResourceExhausted;
    case 501:
      return ErrorCode::kUnimplemented;
    case 502:
    case 503:
      return ErrorCode::kUnavailable;
    case 504:
      return ErrorCode::kDeadlineExceeded;
    case 507:
      return ErrorCode::kStorageFull;
    default:
      return status >= 500 ? ErrorCode::kInternal : ErrorCode::kUnknown;
  }
}

std::optional<std::string> text_at(const Json& json, const char* key) {
  if (!json.is_object()) return std::nullopt;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

}  // namespace

namespace {

Error error_in(const http::Response& response) {
  Error error{code_from_status(response.status),
              "the worker answered with status " + std::to_string(response.status)};
  const Json body = Json::parse(response.body, nullptr, false);
  if (body.is_object() && body.contains("error")) {
    const auto code = text_at(body["error"], "code");
    if (code) error.code = error_code_from_name(*code).value_or(error.code);
    if (auto message = text_at(body["error"], "message")) error.message = std::move(*message);
    return error;
  }
  std::string_view type = response.headers.get("x-amzn-errortype");
  type = type.substr(0, type.find(':'));
  for (const LambdaError& known : kLambdaErrors) {
    if (type == known.type) error.code = known.code;
  }
  // Several of our codes share an exception: the worker says which it is.
  const auto code = error_code_from_name(response.headers.get("x-lambent-code"));
  error.code = code.value_or(error.code);
  for (const char* key : {"Message", "message"}) {
    if (auto message = text_at(body, key)) error.message = std::move(*message);
  }
  return error;
}

}  // namespace

Error error_of(const http::Response& response) {
  Error error = error_in(response);
  // The worker says what is wrong; how a token is given is known here.
  if (error.code == ErrorCode::kUnauthenticated) {
    error.message += ". This command takes a token from --token-file FILE or LAMBENT_TOKEN";
  }
  return error;
}

Result<http::Response> good(Result<http::Response> response) {
  if (!response.ok()) return response.error();
  if (response->status >= 300) return error_of(*response);
  return response;
}

}  // namespace lambent::cli
