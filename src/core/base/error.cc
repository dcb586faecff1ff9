#include "core/base/error.h"

#include <array>
#include <cerrno>
#include <system_error>

namespace lambent {
namespace {

struct Row {
  ErrorCode code;
  std::string_view name;
  int http_status;
  int exit_code;
  bool retryable;
};

constexpr std::array kRows = {
#define ERROR_CODE(enumerator, name, grpc, http, exit, python, retryable) \
  Row{ErrorCode::enumerator, name, http, exit, retryable},
#include "api/error_codes.inc"
#undef ERROR_CODE
};

const Row& row_of(ErrorCode code) {
  // The codes count from 1, so the row's index is the code less one.
  const auto index = static_cast<size_t>(code) - 1;
  return index < kRows.size() ? kRows[index] : kRows[1];
}

ErrorCode code_from_errno(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ESRCH:
      return ErrorCode::kNotFound;
    case EEXIST:
      return ErrorCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kPermissionDenied;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return ErrorCode::kResourceExhausted;
    case ENOSPC:
    case EDQUOT:
      return ErrorCode::kStorageFull;
    case EINVAL:
      return ErrorCode::kInvalidArgument;
    case ETIMEDOUT:
      return ErrorCode::kDeadlineExceeded;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EAGAIN:
      return ErrorCode::kUnavailable;
    default:
      return ErrorCode::kInternal;
  }
}

}  // namespace

std::string_view name_of(ErrorCode code) { return row_of(code).name; }

std::optional<ErrorCode> error_code_from_name(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.code;
  }
  return std::nullopt;
}

int http_status_of(ErrorCode code) { return row_of(code).http_status; }
int exit_code_of(ErrorCode code) { return row_of(code).exit_code; }
bool is_retryable(ErrorCode code) { return row_of(code).retryable; }

Error Error::with_context(std::string_view context) const {
  return Error{code, std::string(context) + ": " + message};
}

std::string to_string(const Error& error) {
  return std::string(name_of(error.code)) + ": " + error.message;
}

Error error_from_errno(std::string_view doing, int error_number) {
  return Error{code_from_errno(error_number),
               std::string(doing) + ": " + std::generic_category().message(error_number)};
}

}  // namespace lambent
