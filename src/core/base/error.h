// The closed list of error codes (api/error_codes.inc) and the Error value that carries one.
// A value; used by every module, on any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lambent {

enum class ErrorCode {
#define ERROR_CODE(enumerator, name, grpc, http, exit, python, retryable) enumerator = grpc,
#include "api/error_codes.inc"
#undef ERROR_CODE
};
// For those who read a code from foreign bytes.
constexpr ErrorCode kLastErrorCode = ErrorCode::kStorageFull;

// Its word, such as "NOT_FOUND".
std::string_view name_of(ErrorCode code);
std::optional<ErrorCode> error_code_from_name(std::string_view name);
int http_status_of(ErrorCode code);
int exit_code_of(ErrorCode code);
// Whether the caller may send the same request again and hope.
bool is_retryable(ErrorCode code);

// What went wrong: what we were doing, to what, and what the user can do about it.
struct Error {
  ErrorCode code = ErrorCode::kUnknown;
  std::string message;

  // The same error with `context` and ": " put before its message; used on the way up.
  Error with_context(std::string_view context) const;
  bool operator==(const Error&) const = default;
};

// "NOT_FOUND: function 'f' does not exist"
std::string to_string(const Error& error);

// An Error from errno (or the given number), such as "open /x: No such file or directory".
Error error_from_errno(std::string_view doing, int error_number);

}  // namespace lambent
